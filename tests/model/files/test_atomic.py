"""Atomic writes: whole or not at all, with the mode of the umask, and no temporary file left."""

import os
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from elmo_model.files.atomic import open_replacing, publish, replacing, write_bytes
from tests.support.files import full_disk


def by_path(path: Path, data: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def by_file(path: Path, data: bytes) -> None:
    with open_replacing(path) as file:
        file.write(data)


def by_another_file(path: Path, data: bytes) -> None:
    """Replace the temporary file by one of the owner alone, as the safetensors library does."""
    with replacing(path) as temporary:
        other = temporary.with_name("other")
        try:
            os.close(os.open(other, os.O_WRONLY | os.O_CREAT, 0o600))
            other.write_bytes(data)
            other.replace(temporary)
        finally:
            other.unlink(missing_ok=True)


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


WRITERS = pytest.mark.parametrize("write", [by_path, by_file, by_another_file, write_bytes])
Writer = Callable[[Path, bytes], None]


@WRITERS
def test_a_new_file_and_a_replaced_file_hold_the_bytes(write: Writer, tmp_path: Path) -> None:
    target = tmp_path / "target"

    write(target, b"one")
    assert target.read_bytes() == b"one"
    write(target, b"second")

    assert target.read_bytes() == b"second"
    assert names_in(tmp_path) == ["target"]


@WRITERS
def test_the_umask_sets_the_mode(write: Writer, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path / "target", b"")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "target").stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("context", [replacing, open_replacing])
def test_an_error_inside_the_block_leaves_the_old_file_alone(
    context: Callable[[Path], AbstractContextManager[object]],
    error: type[BaseException],
    tmp_path: Path,
) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"old")

    with pytest.raises(error), context(target):
        raise error

    assert target.read_bytes() == b"old"
    assert names_in(tmp_path) == ["target"]


@WRITERS
def test_a_full_disk_leaves_the_old_file_alone(write: Writer, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"old")

    with full_disk(50_000), pytest.raises(OSError, match="File too large"):
        write(target, bytes(100_000))

    assert target.read_bytes() == b"old"
    assert names_in(tmp_path) == ["target"]


@pytest.mark.parametrize("name", ["no-folder", "a-file"])
def test_an_error_names_the_file_and_not_its_temporary_one(tmp_path: Path, name: str) -> None:
    (tmp_path / "a-file").touch()
    target = tmp_path / name / "target"

    with pytest.raises(OSError) as error:
        write_bytes(target, b"")

    assert (error.value.filename, error.value.filename2) == (str(target), None)


def test_a_name_of_the_greatest_length_can_be_written(tmp_path: Path) -> None:
    target = tmp_path / ("x" * 255)

    write_bytes(target, b"data")

    assert target.read_bytes() == b"data"


def test_publish_moves_a_folder(tmp_path: Path) -> None:
    written = tmp_path / "aside"
    (written / "inner").mkdir(parents=True)
    (written / "inner" / "file").write_bytes(b"data")

    publish(written, tmp_path / "target")

    assert (tmp_path / "target" / "inner" / "file").read_bytes() == b"data"
    assert names_in(tmp_path) == ["target"]


def test_publish_refuses_a_folder_that_holds_files(tmp_path: Path) -> None:
    for name in ("written", "target"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)

    with pytest.raises(OSError, match="not empty"):
        publish(tmp_path / "written", tmp_path / "target")

    assert (tmp_path / "target" / "file").read_text() == "target"
