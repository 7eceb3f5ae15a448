"""Which folder the tasks lie in: made where it is missing, refused if named, else logged."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from elmo_serve.errors import Conflict
from elmo_serve.settings import SettingsError
from elmo_serve.tasks.opening import open_tasks
from tests.service.tasks.test_file import NER, OWNER
from tests.service.tasks.test_folder import warnings
from tests.support.folders import closed, read_only


def test_the_folder_is_made_where_it_is_missing(tmp_path: Path) -> None:
    open_tasks(tmp_path / "a" / "b").put([NER], OWNER)

    assert (tmp_path / "a" / "b" / "ner.json").is_file()


def test_a_folder_that_cannot_be_used_stops_the_start_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(SettingsError, match=r"^ELMO_TASKS='.*' is not allowed: it is a file; "):
        open_tasks(path)
    with closed(tmp_path), pytest.raises(SettingsError, match="allowed: Permission denied; "):
        open_tasks(tmp_path / "home" / "tasks")


@pytest.mark.parametrize("kind", ["below a file", "below a closed folder", "read-only"])
def test_a_default_folder_that_cannot_be_written_is_logged_and_named_by_a_put(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    with ExitStack() as stack:
        default = tmp_path / "tasks"
        if kind == "below a file":
            default.write_text("")
            default = default / "inner"
        elif kind == "below a closed folder":
            default = default / "inner"
            stack.enter_context(closed(tmp_path))
        else:
            default = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            stack.enter_context(read_only(default))
        folder = open_tasks(None, default)

        assert folder.list(OWNER) == ()
        (warning,) = warnings(caplog)
        assert "ELMO_TASKS sets their folder" in warning
        assert "ELMO_TASKS=" not in warning, "nobody has set it"
        with pytest.raises(Conflict, match="ELMO_TASKS"):
            folder.put([NER], OWNER)


def test_a_user_without_a_home_has_no_default_folder(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    folder = open_tasks(None)

    assert len(warnings(caplog)) == 1
    with pytest.raises(Conflict, match="ELMO_TASKS"):
        folder.put([NER], OWNER)
