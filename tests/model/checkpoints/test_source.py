"""Files of a folder, a zip or a tar: bounded reads, and one line for a hostile archive."""

import struct
import zipfile
from pathlib import Path

import pytest

from elmo_model.checkpoints import CheckpointError, load
from elmo_model.checkpoints.source import (
    Source,
    in_folder,
    tar_names,
    tarred,
    zipped,
)
from tests.support.checkpoints import write_pair
from tests.support.files import write_tar

CONTENT = {"a.txt": b"first", "b.txt": b"second"}
SHADOWS = ("._a.txt", "__MACOSX/._a.txt")  # which macOS adds


@pytest.fixture(params=["folder", "files", "zip", "tar"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    folder = tmp_path / "model"
    folder.mkdir()
    for name, content in {**CONTENT, SHADOWS[0]: b""}.items():
        (folder / name).write_bytes(content)
    everything = {**CONTENT, **dict.fromkeys(SHADOWS, b"")}
    match request.param:
        case "folder":
            return in_folder(folder)
        case "files":
            return in_folder(folder, [str(folder / name) for name in CONTENT])
        case "tar":
            path = write_tar(tmp_path / "model.tar.gz", *everything.items())
            return tarred(path, lambda _: True)
        case _:
            with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
                for name, content in everything.items():
                    archive.writestr(name, content)
            return zipped(tmp_path / "model.zip")


def test_every_source_reads_the_same(source: Source) -> None:
    assert [name.rpartition("/")[2] for name in source.files] == sorted(CONTENT)
    assert source.name == "model"
    for name, content in zip(source.files, CONTENT.values(), strict=True):
        assert source.read(name, 100) == content
        with source.open(name) as stream:
            stream.seek(2)
            assert stream.read() == content[2:]
        with pytest.raises(CheckpointError, match="3 bytes"):
            source.read(name, 3)
        assert source.label(name).endswith(name.rpartition("/")[2])


def test_a_missing_file_is_one_line(source: Source) -> None:
    with pytest.raises(CheckpointError, match=r"^.*model.*nowhere: (does not exist|cannot be)"):
        source.read("nowhere", 100)


def test_the_last_of_two_files_of_a_tar_counts(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tgz", ("./a", b"one"), ("b/c", b"two"), ("a", b"three"))

    assert list(tar_names(path)) == ["a", "b/c", "a"]
    assert tarred(path, lambda name: name == "a").read("a", 10) == b"three"


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

    with pytest.raises(CheckpointError, match="é_options"):
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

    assert zipped(path).files == ("b",)
