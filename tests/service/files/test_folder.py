"""Folders of parts: their manifest, their lock, and files of somebody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmo_serve.files.folder import MANIFEST, folder_of_parts, kept
from elmo_serve.files.inputs import FileError

RUN = {"layers": "all"}
PARTS = {"a.txt": 2}


def hold(folder: Path, run: dict[str, str] = RUN, *, discard: bool = False) -> set[str]:
    """Hold a folder for a moment; return the files that a run finds there."""
    with folder_of_parts(folder, run, PARTS, ".npz", discard=discard):
        paths = (path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix() for path in paths} - {MANIFEST}


def begun(folder: Path) -> Path:
    """Return the folder of a run that has written one part."""
    with folder_of_parts(folder, RUN, PARTS, ".npz", discard=False):
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
        ("thesis.tex", "mine", "not empty"),
        (MANIFEST, "not a manifest", "no manifest"),
        (MANIFEST, "3", "no manifest"),
        (MANIFEST, '{"version": 2, "run": {}}', "no manifest"),
        (MANIFEST, '{"version": 1}', "no manifest"),
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
    manifest = begun(tmp_path / "out") / MANIFEST
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:size])

    hold(tmp_path / "out")

    assert manifest.read_bytes() == whole


@pytest.mark.parametrize("is_new", [True, False])
def test_a_folder_without_a_part_is_left_as_it_was(tmp_path: Path, is_new: bool) -> None:
    folder = tmp_path / "out" if is_new else tmp_path

    with (
        pytest.raises(KeyboardInterrupt),
        folder_of_parts(folder, RUN, {".": 2}, ".npz", discard=False),
    ):
        (folder / ".elmo-part.tmp").touch()
        raise KeyboardInterrupt

    assert list(tmp_path.iterdir()) == []
    assert kept(folder) == "interrupted; nothing is kept"
    assert "out keeps 1 finished part" in kept(begun(tmp_path / "out"))


def test_two_processes_do_not_write_to_one_folder(tmp_path: Path) -> None:
    with (
        folder_of_parts(tmp_path / "out", RUN, PARTS, ".npz", discard=False),
        pytest.raises(FileError, match="another process"),
    ):
        hold(tmp_path / "out")
