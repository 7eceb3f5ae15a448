"""Archives of stored members: `zipfile` and `unzip` read them, large ones too."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from elmo_serve.files.outputs.stored_zip import StoredZip


def archive(members: list[bytes], path: Path, start: int = 0) -> zipfile.ZipFile:
    with path.open("wb") as file:
        file.seek(start)
        made = StoredZip(file, "{}.bin".format)
        for member in members:
            made.add(member[:3], memoryview(member)[3:])
        made.finish()
    return zipfile.ZipFile(path)


@pytest.mark.parametrize("count", [0, 1, 3, 70_000], ids="{} members".format)
def test_every_member_is_there_under_its_number(tmp_path: Path, count: int) -> None:
    # More than 65,535 members need the directory of ZIP64.
    members = [f"member {number}".encode() * (number % 3) for number in range(count)]

    with archive(members, tmp_path / "a.zip") as found:
        assert found.namelist() == [f"{number}.bin" for number in range(count)]
        assert {each.compress_type for each in found.infolist()} <= {zipfile.ZIP_STORED}
        for number in (*range(0, count, 997), *range(max(0, count - 2), count)):
            assert found.read(f"{number}.bin") == members[number]


def test_members_beyond_4_gib_are_found(tmp_path: Path) -> None:
    # A hole before the first member: the disk keeps nothing of it.
    start = (1 << 32) - 40

    with archive([b"before", b"behind"], tmp_path / "a.zip", start) as found:
        first, second = found.infolist()
        assert first.header_offset == start and second.header_offset > 1 << 32
        assert (found.read(first), found.read(second)) == (b"before", b"behind")


def test_a_member_of_4_gib_is_whole(tmp_path: Path) -> None:
    class Sparse(io.FileIO):
        """A file in which what is all zeros becomes a hole."""

        def write(self, data: object) -> int:
            view = memoryview(data)  # type: ignore[arg-type]
            if len(view) < 1 << 20:
                return super().write(view) or 0
            self.seek(len(view), io.SEEK_CUR)
            return len(view)

    zeros = memoryview(bytes(1 << 24))
    with Sparse(tmp_path / "a.zip", "w") as file:
        made = StoredZip(file, "{}.bin".format)
        made.add(*[zeros] * 256)
        made.add(b"behind")
        made.finish()

    with zipfile.ZipFile(tmp_path / "a.zip") as found:
        large, small = found.infolist()
        assert (large.file_size, found.read(small)) == (1 << 32, b"behind")
        with found.open(large) as member:
            assert member.read(1 << 20) == bytes(1 << 20)


def test_the_same_members_make_the_same_file(tmp_path: Path) -> None:
    for name in ("a.zip", "b.zip"):
        archive([b"one", b"two"], tmp_path / name).close()

    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_what_is_damaged_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    archive([b"member"], path).close()
    data = bytearray(path.read_bytes())
    data[data.index(b"member")] ^= 1
    path.write_bytes(data)

    with zipfile.ZipFile(path) as found:
        assert found.testzip() == "0.bin"
