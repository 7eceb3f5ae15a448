"""Folders of parts: those of one file, and those of a folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from elmo_serve.files.inputs import FileError
from elmo_serve.files.resume import MANIFEST, folder_of_parts, parts_of_file

RUN = {"layers": "all"}


def shape(tokens: int) -> tuple[int, ...]:
    return (tokens, 3)


def write(output: Path, *lengths: int) -> None:
    """Begin a run, a part a sentence, and end before OUTPUT is there."""
    with (
        pytest.raises(KeyboardInterrupt),
        parts_of_file(output, RUN, 9, discard=False) as parts,
    ):
        state = {"h": np.arange(3, dtype=np.float32)}
        arrays = [np.full(shape(length), length, np.float32) for length in lengths]
        assert parts.keep([[array] for array in arrays], iter(lengths), lambda: state, 0) == []
        raise KeyboardInterrupt


def test_parts_and_their_state_are_there_again_and_go_in_the_end(tmp_path: Path) -> None:
    output = tmp_path / "out"
    write(output, 2, 0, 1)

    with parts_of_file(output, RUN, 9, discard=False) as parts:
        assert (parts.sentences, parts.tokens) == (3, 3)
        assert parts.state["h"].tolist() == [0, 1, 2]
        assert [array.tolist() for array in parts.arrays(shape)] == [[[2] * 3] * 2, [], [[1] * 3]]

    assert list(tmp_path.iterdir()) == []


def test_a_run_of_less_than_a_part_is_held_in_memory(tmp_path: Path) -> None:
    with parts_of_file(tmp_path / "out", RUN, 9, discard=False) as parts:
        groups = [[np.zeros((1, 3), np.float32)]] * 3
        (last,) = parts.keep(groups, iter([1, 1, 1]), dict, 1e9, 24)
        assert (parts.sentences, last.shape) == (2, (1, 3))


@pytest.mark.parametrize("keep", [0, 100, -1])
def test_what_follows_a_part_that_is_not_whole_is_computed_again(tmp_path: Path, keep: int) -> None:
    """As after a power cut: a part is not waited for until it is on the disk."""
    output = tmp_path / "out"
    write(output, 2, 1, 3)
    path = tmp_path / "out.parts" / "000001.npz"
    path.write_bytes(path.read_bytes()[:keep])

    write(output)
    assert [each.name for each in (tmp_path / "out.parts").glob("*.npz")] == ["000000.npz"]


def test_a_part_that_changes_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    write(tmp_path / "out", 2)
    with parts_of_file(tmp_path / "out", RUN, 9, discard=False) as parts:
        path = tmp_path / "out.parts" / "000000.npz"
        data = bytearray(path.read_bytes())
        data[200] ^= 1
        path.write_bytes(data)
        with pytest.raises(FileError, match="was changed after it was written"):
            list(parts.arrays(shape))


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
    assert hold(begun(tmp_path / "same"), discard=True) == {"a.txt/000000.npz"}, "the same run"


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


def test_two_processes_do_not_write_to_one_folder(tmp_path: Path) -> None:
    with (
        folder_of_parts(tmp_path / "out", RUN, PARTS, ".npz", discard=False),
        pytest.raises(FileError, match="out is being written by another process"),
    ):
        hold(tmp_path / "out")
