"""Gzipped tars: regular files by path; links, bombs and damage are refused or left out."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from elmo_model.checkpoints import CheckpointError, tars


def write(path: Path, *members: tuple[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def test_wanted_files_are_read_and_the_last_of_two_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tgz", ("./a", b"one"), ("b/c", b"two"), ("a", b"three"))

    assert tars.is_tar(path)
    assert list(tars.names(path)) == ["a", "b/c", "a"]
    assert tars.read(path, lambda name: name == "a") == {"a": b"three"}


def test_links_and_folders_are_no_files(tmp_path: Path) -> None:
    path = tmp_path / "a.tgz"
    with tarfile.open(path, "w:gz") as tar:
        for name, kind in (
            ("link", tarfile.SYMTYPE),
            ("hard", tarfile.LNKTYPE),
            ("d", tarfile.DIRTYPE),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/hostname"
            tar.addfile(member)

    assert list(tars.names(path)) == []


def test_other_files_are_no_tars(tmp_path: Path) -> None:
    for name, content in (("text", b"text"), ("gzip", b"\x1f\x8b\x08 and no more"), ("empty", b"")):
        (tmp_path / name).write_bytes(content)
        assert not tars.is_tar(tmp_path / name)


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tgz", ("weights.th", bytes(10_000_000)))

    with pytest.raises(CheckpointError, match="expected at most 100 times its size"):
        tars.read(path, lambda _: True)


def test_too_many_entries_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tgz"
    path.write_bytes(gzip.compress(tarfile.TarInfo("a").tobuf() * 10_001, 1))

    with pytest.raises(CheckpointError, match="more entries than expected, at most 10,000"):
        list(tars.names(path))


def test_a_truncated_tar_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tgz", ("a", bytes(range(256)) * 100))
    path.write_bytes(path.read_bytes()[:-100])

    with pytest.raises(CheckpointError, match=r"a\.tgz: is not a whole tar archive"):
        tars.read(path, lambda _: True)
