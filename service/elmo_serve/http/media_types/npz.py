"""application/x-npz: an uncompressed .npz with the arrays "0", "1", ...

For a request with text, "tokens" and "offsets" are arrays of one byte string each, the JSON text of
a list with an item for each sentence: `json.loads(archive["tokens"].item())`.
"""

import io
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_model.files.npy import npy_header
from elmo_serve.http.media_types.encoder import (
    MEDIA_TYPES,
    Chunk,
    Embeddings,
    Encoder,
    json_array,
    raw,
)

_PART_BYTES = 1 << 12
_LONG_BYTES = 1 << 17
"""Arrays up to `_LONG_BYTES` are checksummed in parts of `_PART_BYTES`. zlib releases the GIL for
buffers over 5 KiB; thousands of such short releases starve the event loop, which wakes up each time
after the GIL is taken again. Smaller parts keep the GIL; above 128 KiB one release is long enough
for the event loop to run. Measured by `benchmarks.event_loop` at commit 5a1c226a."""


def encode(embeddings: Embeddings) -> list[Chunk]:
    """Return the archive in chunks; the vectors are not copied."""
    file = _ChunkList()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for index, array in enumerate(embeddings.arrays):
            _add(archive, str(index), array)
        if embeddings.tokenizer is not None:
            _add(archive, "tokens", np.array(json_array(embeddings.sentences)))
            _add(archive, "offsets", np.array(json_array(embeddings.offsets)))
    return file.joined()


class _ChunkList(io.RawIOBase):
    """A file that keeps written buffers as they are.

    `zipfile` writes the header of a member again when it knows its size and checksum: readers that
    go from member to member, such as Java's, need them there. So it may seek back to the start of
    anything that it wrote as `bytes`.
    """

    def __init__(self) -> None:
        self._chunks: list[bytearray | memoryview] = []
        self._headers: dict[int, bytearray] = {}  # by their place in the file
        self._size = self._position = 0

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset
        return offset

    def write(self, data: Any) -> int:
        if self._position < self._size:
            self._headers[self._position][:] = data
        elif isinstance(data, bytes):
            self._headers[self._position] = bytearray(data)
            self._chunks.append(self._headers[self._position])
        else:
            self._chunks.append(memoryview(data))
        self._position += len(data)
        self._size = max(self._size, self._position)
        return len(data)

    def joined(self) -> list[Chunk]:
        """Return the content; headers beside each other are one chunk."""
        chunks: list[Chunk] = []
        headers = bytearray()
        for each in self._chunks:
            if isinstance(each, bytearray):
                headers += each
                continue
            if headers:
                chunks.append(bytes(headers))
                headers.clear()
            chunks.append(each)
        return [*chunks, bytes(headers)]  # an archive ends with its directory


def _add(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    is_large = array.nbytes >= zipfile.ZIP64_LIMIT
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=is_large) as member:
        member.write(npy_header(array.shape, array.dtype.str))
        for part in _parts(raw(array)):
            member.write(part)


def _parts(data: memoryview) -> Iterator[memoryview]:
    """Cut an array's bytes into parts whose checksums do not starve the event loop."""
    if len(data) > _LONG_BYTES:
        yield data
        return
    for start in range(0, len(data), _PART_BYTES):
        yield data[start : start + _PART_BYTES]


ENCODER = Encoder(MEDIA_TYPES["npz"], encode)
