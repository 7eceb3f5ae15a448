"""ZIP archives of stored members whose writer keeps 20 bytes of each, and no more.

`zipfile` keeps an object of some 400 bytes for every member until the directory is written, which
is the last thing in the file: with a member a sentence, that is more than the network takes.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Callable
from typing import BinaryIO

# PKWARE's APPNOTE.TXT, sections 4.3 and 4.5.3
_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END_64 = struct.Struct("<4sQ2H2I4Q")
_END_64_LOCATOR = struct.Struct("<4sIQI")
_PLAIN, _ZIP64 = 20, 45  # versions of the format that a reader must know
_DATE = 1 << 5 | 1  # 1 January 1980, midnight: the same input makes the same file
_MOST_32, _MOST_16 = 0xFFFF_FFFF, 0xFFFF
_EXTRA_64 = 1


class StoredZip:
    """Writes members called by their numbers to a file, from where it stands on."""

    def __init__(self, file: BinaryIO, name: Callable[[int], str]) -> None:
        self._file = file
        self._name = name
        self._place = file.tell()
        self._checksums = array("I")
        self._sizes = array("Q")
        self._places = array("Q")

    def add(self, *parts: bytes | memoryview) -> None:
        """Write the next member, whose bytes are these parts one after another."""
        size, checksum = 0, 0
        for part in parts:
            size += len(part)
            checksum = zlib.crc32(part, checksum)
        name = self._name(len(self._sizes)).encode()
        is_large = size >= _MOST_32
        extra = struct.pack("<2H2Q", _EXTRA_64, 16, size, size) if is_large else b""
        shown = _MOST_32 if is_large else size
        header = _LOCAL.pack(
            *(b"PK\3\4", _ZIP64 if is_large else _PLAIN, 0, 0, 0, _DATE),
            *(checksum, shown, shown, len(name), len(extra)),
        )
        self._checksums.append(checksum)
        self._sizes.append(size)
        self._places.append(self._place)
        for part in (header, name, extra, *parts):
            self._write(part)

    def finish(self) -> None:
        """Write the directory."""
        start, count = self._place, len(self._sizes)
        for number in range(count):
            self._write(self._entry(number))
        end, size = self._place, self._place - start
        if count >= _MOST_16 or end >= _MOST_32:
            versions = (_ZIP64, _ZIP64, 0, 0)
            self._write(
                _END_64.pack(b"PK\6\6", _END_64.size - 12, *versions, count, count, size, start)
            )
            self._write(_END_64_LOCATOR.pack(b"PK\6\7", 0, end, 1))
        shown = min(count, _MOST_16)
        places = min(size, _MOST_32), min(start, _MOST_32)
        self._write(_END.pack(b"PK\5\6", 0, 0, shown, shown, *places, 0))

    def _entry(self, number: int) -> bytes:
        name = self._name(number).encode()
        size, place = self._sizes[number], self._places[number]
        version, shown, extra = _PLAIN, (size, size, place), b""
        if max(size, place) >= _MOST_32:
            version, extra = _ZIP64, struct.pack("<2H3Q", _EXTRA_64, 24, *shown)
            shown = (_MOST_32,) * 3
        packed, unpacked, offset = shown
        header = _CENTRAL.pack(
            *(b"PK\1\2", version, version, 0, 0, 0, _DATE),
            *(self._checksums[number], packed, unpacked, len(name), len(extra), 0, 0, 0, 0, offset),
        )
        return header + name + extra

    def _write(self, data: bytes | memoryview) -> None:
        self._file.write(data)
        self._place += len(data)
