"""Files of a folder, a zip or memory: bounded reads, and one line for a hostile archive."""

import io
import os
import struct
import zipfile
from pathlib import Path

import pytest

from elmo_model.checkpoints import CheckpointError, load
from elmo_model.checkpoints.source import (
    MAX_ENTRIES,
    FilesSource,
    FolderSource,
    MemorySource,
    Source,
    ZipSource,
    bounded,
    head,
    source_at,
)
from tests.support.checkpoints import write_pair

CONTENT = {"a.txt": b"first", "b.txt": b"second"}


@pytest.fixture(params=["folder", "files", "zip", "memory"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    folder = tmp_path / "model"
    folder.mkdir()
    for name, content in CONTENT.items():
        (folder / name).write_bytes(content)
    match request.param:
        case "folder":
            return FolderSource(folder)
        case "files":
            return FilesSource(folder, tuple(str(folder / name) for name in CONTENT))
        case "memory":
            return MemorySource(tmp_path / "model.tar.gz", CONTENT)
        case _:
            with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
                for name, content in CONTENT.items():
                    archive.writestr(name, content)
            return ZipSource(tmp_path / "model.zip")


def test_every_source_reads_the_same(source: Source) -> None:
    names = source.files()

    assert [name.rpartition("/")[2] for name in names] == sorted(CONTENT)
    assert source.name == "model"
    for name, content in zip(names, CONTENT.values(), strict=True):
        assert source.read(name, 100) == content
        with source.open(name) as stream:
            stream.seek(2)
            assert stream.read() == content[2:]
        with pytest.raises(CheckpointError, match="is larger than expected, at most 3 bytes"):
            source.read(name, 3)
        assert source.label(name).endswith(name.rpartition("/")[2])


def not_utf8(path: Path) -> Path:
    """Write a zip whose entry has a name that is flagged as UTF-8 and is not."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("é.json", "{}")
    content = path.read_bytes()
    assert content.count("é".encode()) == 2
    path.write_bytes(content.replace("é".encode(), b"\xff\xfe"))
    return path


@pytest.mark.parametrize("name", ["model.zip", "weights.th", "align.pth", "options.json"])
def test_a_name_that_is_not_utf8_is_one_line(tmp_path: Path, name: str) -> None:
    write_pair(tmp_path)
    path = not_utf8(tmp_path / name)

    with pytest.raises(CheckpointError) as refusal:
        load(path)

    assert str(path) in str(refusal.value) and "\n" not in str(refusal.value)


def test_a_local_name_that_is_not_utf8_is_one_line(tmp_path: Path) -> None:
    """The directory of the archive is sound, the header before the entry is not."""
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("é_options.json", "{}")
        archive.writestr("é_weights.hdf5", "")
    content = path.read_bytes()
    path.write_bytes(content.replace("é".encode(), b"\xff\xfe", 1))

    with pytest.raises(CheckpointError, match=r"model\.zip:é_options\.json: cannot be unpacked"):
        load(path)


def test_an_entry_without_a_name_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", "")
        archive.writestr("b", "")
    content = path.read_bytes()
    first = content.index(b"PK\x01\x02")
    # The directory of the archive names the first entry by no bytes at all.
    directory = content[first : first + 28] + bytes(2) + content[first + 30 : first + 46]
    shorter = content[:first] + directory + content[first + 47 :]
    end = shorter.index(b"PK\x05\x06")
    size = struct.unpack("<I", shorter[end + 12 : end + 16])[0] - 1
    path.write_bytes(shorter[: end + 12] + struct.pack("<I", size) + shorter[end + 16 :])

    assert ZipSource(path).files() == ["b"]


@pytest.mark.parametrize("kind", ["zip", "memory"])
def test_a_missing_file_of_an_archive_is_one_line(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w"):
        pass
    source: Source = ZipSource(path) if kind == "zip" else MemorySource(path, {})

    with pytest.raises(CheckpointError, match=r"^.*model\.zip:a: does not exist"):
        source.read("a", 100)
    with pytest.raises(CheckpointError, match=r"^.*model\.zip:a: does not exist"), source.open("a"):
        pass


def test_an_archive_of_too_many_entries_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(MAX_ENTRIES + 1):
            archive.writestr(str(number), "")

    with pytest.raises(CheckpointError, match=r"has 10,001 entries, expected at most 10,000"):
        source_at(path).files()  # type: ignore[union-attr]


def test_a_size_that_the_archive_overstates_allocates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("weights.hdf5", b"tiny")
    content = bytearray(path.read_bytes())
    directory = content.index(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = struct.pack("<I", 0x7FFFFFFF)
    path.write_bytes(content)

    with (
        pytest.raises(CheckpointError, match="unpacks to 2,147,483,647 bytes from 4"),
        ZipSource(path).open("weights.hdf5"),
    ):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_folder_is_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0)
    try:
        with pytest.raises(CheckpointError, match="cannot be read: Permission denied"):
            FolderSource(tmp_path).files()
    finally:
        tmp_path.chmod(0o755)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere: cannot be read: No such file"):
        head(tmp_path / "nowhere", 4)
    with pytest.raises(CheckpointError, match="nowhere: cannot be read: No such file"):
        FolderSource(tmp_path).read("nowhere", 4)


def test_a_stream_is_read_up_to_its_limit() -> None:
    assert bounded(io.BytesIO(b"1234"), "label", 4) == b"1234"
    with pytest.raises(CheckpointError, match=r"^label: is larger than expected, at most 3 bytes$"):
        bounded(io.BytesIO(b"1234"), "label", 3)
