"""The task folder: made where it is missing, refused if named, logged if it is the default."""

import asyncio
import logging
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from elmo_model.files.locks import locked_file
from elmo_model.network.task import Task
from elmo_serve.errors import Conflict
from elmo_serve.settings import SettingsError
from elmo_serve.tasks.file import TaskOwner
from elmo_serve.tasks.folder import default_folder, open_registry
from tests.support.engines import turns
from tests.support.folders import closed, read_only
from tests.support.in_process import in_process

LAYERS = 3
OWNER = TaskOwner(LAYERS)
NER = Task("ner", (0.5, -1.0, 2.0))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_the_folder_is_made_where_it_is_missing(tmp_path: Path) -> None:
    open_registry(tmp_path / "a" / "b", OWNER).put(NER)

    assert (tmp_path / "a" / "b" / "ner.json").is_file()


def test_a_folder_that_is_a_file_stops_the_start_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")

    with pytest.raises(
        SettingsError, match=r"^ELMO_TASKS='.*' is not allowed: it is a file; allowed: a folder"
    ):
        open_registry(path, OWNER)


def test_a_folder_that_cannot_be_looked_up_stops_the_start_in_one_line(tmp_path: Path) -> None:
    with (
        closed(tmp_path),
        pytest.raises(SettingsError, match="allowed: Permission denied; allowed"),
    ):
        open_registry(tmp_path / "home" / "tasks", OWNER)


def test_without_the_setting_tasks_are_kept_in_the_default_folder(tmp_path: Path) -> None:
    default = tmp_path / "data" / "tasks"

    open_registry(None, OWNER, default).put(NER)

    assert open_registry(None, OWNER, default).list() == (NER,)


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
        registry = open_registry(None, OWNER, default)

        assert registry.list() == ()
        assert len(warnings(caplog)) == 1
        assert "ELMO_TASKS sets their folder" in warnings(caplog)[0]
        assert "ELMO_TASKS=" not in warnings(caplog)[0], "nobody has set it"
        with pytest.raises(Conflict, match="ELMO_TASKS"):
            registry.put(NER)


def test_the_default_folder_is_in_the_users_data_folder() -> None:
    assert default_folder().parts[-2:] == ("elmo-serve", "tasks")
    assert default_folder().is_absolute()


async def test_metrics_are_read_while_the_folder_hangs(tmp_path: Path) -> None:
    """Six requests that waited for the folder held every thread, also that of the metrics."""
    async with in_process(tasks=tmp_path) as serving:
        task = {"weights": [0, 0, 0]}
        with locked_file(tmp_path / ".lock"):  # as a network file system would
            puts = [
                asyncio.ensure_future(serving.client.put(f"/tasks/t{number}", json=task))
                for number in range(40)  # more than any pool has threads
            ]
            await turns()
            metrics = await serving.client.get("/metrics")

            assert metrics.status_code == 200
            assert not any(put.done() for put in puts)
        statuses = [(await put).status_code for put in puts]
    assert statuses == [201] * len(puts)
