"""The part and the journal of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from elmo_serve.files.inputs import FileError
from elmo_serve.files.resume import MANIFEST, PartFile, folder_of_parts

RUN = {"layers": "all"}


def vectors(count: int) -> list[np.ndarray]:
    return [np.full((2, 3), number, np.float32) for number in range(count)]


def test_kept_arrays_and_state_are_there_again(tmp_path: Path) -> None:
    output = tmp_path / "out"
    with PartFile.open(output, RUN, discard=False) as part:
        part.append(vectors(2), tokens=4)
        part.keep({"h": np.ones(3, np.float32)})
        part.append(vectors(1), tokens=2)  # never kept

    with PartFile.open(output, RUN, discard=False) as part:
        assert (part.progress.sentences, part.progress.tokens, part.kept) == (2, 4, 2)
        assert np.array_equal(part.progress.state["h"], np.ones(3))
        found = list(part.arrays([(2, 3)] * 2))
        part.remove()

    assert all(np.array_equal(one, other) for one, other in zip(found, vectors(2), strict=True))
    assert list(tmp_path.iterdir()) == []


def test_the_journal_is_there_before_the_first_byte(tmp_path: Path) -> None:
    with PartFile.open(tmp_path / "out", RUN, discard=False) as part:
        assert part.journal.exists()
        assert part.kept == 0


def test_a_part_that_changes_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    with PartFile.open(tmp_path / "out", RUN, discard=False) as part:
        part.append(vectors(2), tokens=4)
        part.keep({})
        data = bytearray(part.path.read_bytes())
        part.path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
        with pytest.raises(FileError, match="was changed after it was written"):
            list(part.arrays([(2, 3)] * 2))
        with pytest.raises(FileError, match="is shorter than it was written"):
            list(part.arrays([(2, 3)] * 3))


def test_another_run_is_refused_or_discarded(tmp_path: Path) -> None:
    output = tmp_path / "out"
    with PartFile.open(output, RUN, discard=False) as part:
        part.append(vectors(2), tokens=4)
        part.keep({})
    other = {"layers": "top"}

    with (
        pytest.raises(FileError, match="was begun with layers 'all', and this is 'top'"),
        PartFile.open(output, other, discard=False),
    ):
        pass
    with PartFile.open(output, other, discard=True) as part:
        assert part.progress.sentences == 0
        assert part.path.stat().st_size == 0


def test_two_runs_cannot_hold_one_part(tmp_path: Path) -> None:
    output = tmp_path / "out"
    with (
        PartFile.open(output, RUN, discard=False),
        pytest.raises(FileError, match="is being written by another process"),
        PartFile.open(output, RUN, discard=False),
    ):
        pass


# A folder of parts

PARTS = {"a.txt": 2}


def hold(folder: Path, run: dict[str, str] = RUN, *, discard: bool = False) -> set[str]:
    """Hold a folder for a moment; return the files that a run finds there."""
    with folder_of_parts(folder, run, PARTS, ".npz", discard=discard):
        paths = (path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix() for path in paths} - {MANIFEST}


def begun(folder: Path) -> Path:
    """Return the folder of a run that has written one part."""
    hold(folder)
    (folder / "a.txt").mkdir()
    (folder / "a.txt" / "000000.npz").write_bytes(b"1234")
    return folder


def test_parts_of_an_earlier_process_are_there_and_its_leavings_are_not(tmp_path: Path) -> None:
    folder = begun(tmp_path / "out")
    (folder / "a.txt" / ".elmo-0123.tmp").touch()

    assert hold(folder) == {"a.txt/000000.npz"}
    with folder_of_parts(folder, RUN, PARTS, ".npz", discard=False):
        (folder / "a.txt" / ".elmo-4567.tmp").touch()  # on another machine, which is lost
    assert [path.name for path in (folder / "a.txt").iterdir()] == ["000000.npz"]


def test_the_folder_of_another_run_is_refused_or_emptied_of_its_parts(tmp_path: Path) -> None:
    folder = begun(tmp_path / "out")
    (folder / "a.txt" / "notes").write_text("mine")
    other = {"layers": "top"}

    with pytest.raises(FileError, match=r"begun with layers 'all', and this is 'top'; --force"):
        hold(folder, other)
    assert hold(folder, other, discard=True) == {"a.txt/notes"}
    assert hold(folder, other) == {"a.txt/notes"}
    assert hold(begun(tmp_path / "same"), discard=True) == set(), "the same run starts over"


@pytest.mark.parametrize("discard", [False, True])
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("thesis.tex", "mine", "is not empty and has no _manifest.json; name another folder"),
        (MANIFEST, "not a manifest", "is no manifest of elmo embed; name another folder"),
        (MANIFEST, "3", "is no manifest of elmo embed"),
        (MANIFEST, '{"version": 1, "run": {}}', "is no manifest of elmo embed"),
        (MANIFEST, '{"version": 2}', "is no manifest of elmo embed"),
    ],
)
def test_a_folder_of_somebody_else_is_never_changed(
    tmp_path: Path, name: str, content: str, message: str, discard: bool
) -> None:
    (tmp_path / name).write_text(content)

    with pytest.raises(FileError, match=message):
        hold(tmp_path, discard=discard)

    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, content)]


@pytest.mark.parametrize("size", [0, 1, 20, -2])
def test_a_manifest_that_a_killed_process_has_not_finished_is_written_anew(
    tmp_path: Path, size: int
) -> None:
    """No part was begun then."""
    hold(tmp_path / "out")
    manifest = tmp_path / "out" / MANIFEST
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:size])

    hold(tmp_path / "out")

    assert manifest.read_bytes() == whole


@pytest.mark.parametrize("file", [MANIFEST, f"{MANIFEST}/a.txt"])
def test_a_corpus_that_has_the_name_of_the_manifest_is_refused(tmp_path: Path, file: str) -> None:
    with (
        pytest.raises(FileError, match=r"_manifest\.json, the name of the manifest"),
        folder_of_parts(tmp_path / "out", RUN, {file: 1}, ".npz", discard=False),
    ):
        pass

    assert not (tmp_path / "out").exists()


def test_two_processes_do_not_write_to_one_folder(tmp_path: Path) -> None:
    with (
        folder_of_parts(tmp_path / "out", RUN, PARTS, ".npz", discard=False),
        pytest.raises(FileError, match="out is being written by another process"),
    ):
        hold(tmp_path / "out")
