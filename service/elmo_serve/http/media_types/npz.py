"""application/x-npz: an uncompressed .npz with the arrays "0", "1", ..."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_serve.http.media_types.encoder import Answer, Chunk, Encoding, raw

_PART_BYTES, _LONG_BYTES = 1 << 12, 1 << 17


def encode(answer: Answer) -> list[Chunk]:
    """Return the archive in pieces; the vectors among them are not copied."""
    pieces = _Pieces()
    with zipfile.ZipFile(pieces, "w", zipfile.ZIP_STORED) as archive:
        for index, array in enumerate(answer.arrays):
            member = zipfile.ZipInfo(f"{index}.npy")
            with archive.open(member, "w", force_zip64=array.nbytes >= zipfile.ZIP64_LIMIT) as file:
                file.write(_header(array))
                for part in _parts(raw(array)):
                    file.write(part)
    pieces.flush()
    return pieces.chunks


def _parts(data: memoryview) -> Iterator[memoryview]:
    """Cut what is short into parts whose checksum is made without letting go of the interpreter.

    zlib lets go of it beyond 5 KiB. To be woken takes another thread longer than the checksum of
    some 10 KiB: with thousands of those one after another the event loop is woken each time, always
    too late, and never gets its turn.
    """
    if len(data) > _LONG_BYTES:
        yield data
        return
    for start in range(0, len(data), _PART_BYTES):
        yield data[start : start + _PART_BYTES]


def decode(data: bytes) -> list[NDArray[Any]]:
    """Return one array a sentence."""
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return [archive[str(index)] for index in range(len(archive.files))]


class _Pieces(io.RawIOBase):
    """A file that cannot seek and keeps what is written as it came."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self._headers = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if isinstance(data, memoryview):
            self.flush()
            self.chunks.append(data)
        else:
            self._headers += data
        return len(data)

    def flush(self) -> None:
        """Keep the headers so far as one piece."""
        if self._headers:
            self.chunks.append(bytes(self._headers))
            self._headers.clear()


def _header(array: NDArray[Any]) -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    return header.getvalue()


ENCODING = Encoding("application/x-npz", encode, decode)
