"""The manifest of finished parts: what counts after a kill, and what is never touched."""

from pathlib import Path

import pytest

from elmo_serve.distributed.manifest import NAME, FinishedPart, Manifest
from elmo_serve.files.sentence import FileError

RUN = {"model": "r1", "suffix": ".npz"}
PARTS = {"a.txt": 3}
FIRST = FinishedPart("a.txt/000000.npz", 10, 50, 4)
SECOND = FinishedPart("a.txt/000001.npz", 10, 50, 4)


def write(folder: Path, *parts: FinishedPart, complete: bool = False) -> None:
    """Finish some parts of a run."""
    with Manifest.open(folder, RUN, PARTS, discard=False) as manifest:
        for part in parts:
            (folder / part.part).parent.mkdir(exist_ok=True)
            (folder / part.part).write_bytes(b"1234")
            manifest.add(part)
        if complete:
            manifest.complete()


def finished(folder: Path) -> set[str]:
    with Manifest.open(folder, RUN, PARTS, discard=False) as manifest:
        return set(manifest.finished)


def test_finished_parts_count_in_the_next_run(tmp_path: Path) -> None:
    write(tmp_path / "out", FIRST, SECOND)

    assert finished(tmp_path / "out") == {FIRST.part, SECOND.part}


def test_a_line_that_a_kill_cut_off_does_not_count(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write(folder, FIRST, SECOND)
    manifest = folder / NAME
    manifest.write_bytes(manifest.read_bytes()[:-3])

    assert finished(folder) == {FIRST.part}
    write(folder, SECOND)
    assert finished(folder) == {FIRST.part, SECOND.part}


@pytest.mark.parametrize("file", [NAME, f"{NAME}/a.txt"])
def test_a_corpus_that_has_the_name_of_the_manifest_is_refused(tmp_path: Path, file: str) -> None:
    with (
        pytest.raises(FileError, match=r"manifest\.jsonl, the name of the manifest"),
        Manifest.open(tmp_path / "out", RUN, {file: 1}, discard=False),
    ):
        pass

    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("damage", ["missing", "shorter"])
def test_a_part_whose_file_is_not_whole_is_written_again(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "out"
    write(folder, FIRST, SECOND)
    if damage == "missing":
        (folder / FIRST.part).unlink()
    else:
        (folder / FIRST.part).write_bytes(b"1")

    assert finished(folder) == {SECOND.part}


def test_another_run_is_refused_and_discarded_on_demand(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write(folder, FIRST, SECOND)
    mine = folder / "a.txt" / "notes"
    mine.write_text("mine")
    other = {**RUN, "model": "r2"}

    with (
        pytest.raises(FileError, match=r"begun with model 'r1', and this is 'r2'; --force"),
        Manifest.open(folder, other, PARTS, discard=False),
    ):
        pass
    with Manifest.open(folder, other, PARTS, discard=True) as manifest:
        assert not manifest.finished

    assert [path.name for path in (folder / "a.txt").iterdir()] == ["notes"]


def test_a_complete_folder_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "out", FIRST, complete=True)

    with pytest.raises(FileError, match="is complete; --force replaces it"):
        write(tmp_path / "out")


def test_a_folder_of_somebody_else_is_never_changed(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")

    for discard in (False, True):
        with (
            pytest.raises(FileError, match="is not empty"),
            Manifest.open(tmp_path, RUN, PARTS, discard=discard),
        ):
            pass
    (tmp_path / NAME).write_text("not a manifest\n")
    with (
        pytest.raises(FileError, match="is no manifest of elmo embed"),
        Manifest.open(tmp_path, RUN, PARTS, discard=True),
    ):
        pass

    assert (tmp_path / NAME).read_text() == "not a manifest\n"
    assert (tmp_path / "thesis.tex").read_text() == "mine"


@pytest.mark.parametrize("damage", [b"\0\0\0\n", b'{"part": "a.txt/000001.npz"}\n', b"3\n"])
def test_a_damaged_manifest_is_refused_and_replaced_on_demand(
    tmp_path: Path, damage: bytes
) -> None:
    folder = tmp_path / "out"
    write(folder, FIRST)
    with (folder / NAME).open("ab") as file:
        file.write(damage)

    with pytest.raises(FileError, match="is damaged in line 3; --force starts over"):
        write(folder)
    with Manifest.open(folder, RUN, PARTS, discard=True) as manifest:
        assert not manifest.finished

    assert not (folder / FIRST.part).exists()
    write(folder, FIRST)
    assert finished(folder) == {FIRST.part}


def test_two_processes_do_not_write_to_one_folder(tmp_path: Path) -> None:
    with (
        Manifest.open(tmp_path / "out", RUN, PARTS, discard=False),
        pytest.raises(FileError, match="is being written by another process"),
        Manifest.open(tmp_path / "out", RUN, PARTS, discard=False),
    ):
        pass
