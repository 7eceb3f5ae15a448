"""ELMO_INDEX: whole indexes, each of a model that is served."""

from pathlib import Path

import pytest

from elmo_serve.neighbours.user_indexes import NO_INDEXES, UserIndexes
from elmo_serve.settings import SettingsError
from tests.support.neighbours import made_up, write_index

SENTENCES = [["a", "b"], ["c"]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_index(tmp_path / "index", [SENTENCES], made_up(SENTENCES))
    return tmp_path / "index"


def test_an_index_is_found_by_its_revision(folder: Path) -> None:
    indexes = UserIndexes([folder])

    index = indexes.of("abc")
    assert index is not None
    assert index.info.tokens == 3
    assert indexes.of("abd") is None
    assert NO_INDEXES.of("abc") is None
    indexes.check({"first": "x", "second": "abc"})


def test_an_index_of_another_revision_is_refused(folder: Path) -> None:
    with pytest.raises(SettingsError) as error:
        UserIndexes([folder]).check({"english": "ea02", "pt": "77"})

    (line,) = error.value.refusals
    assert line == (
        f"ELMO_INDEX={str(folder)!r} is not allowed: it is of the model tiny, revision abc; "
        "english is ea02, pt is 77; allowed: a folder that `elmo index` has written for a model "
        "that is served"
    )


def test_two_indexes_of_one_model_are_refused(folder: Path, tmp_path: Path) -> None:
    write_index(tmp_path / "other", [SENTENCES], made_up(SENTENCES))

    with pytest.raises(SettingsError, match="index is of the same model"):
        UserIndexes([folder, tmp_path / "other"])


def test_a_folder_that_is_no_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"ELMO_INDEX=.* is no index of uses"):
        UserIndexes([tmp_path])
