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

from elmo_serve.http.media_types.encoder import (
    Chunk,
    ChunkList,
    Embeddings,
    Encoder,
    json_array,
    raw,
)
from elmo_serve.output import MEDIA_TYPES

_PART_BYTES = 1 << 12
_LONG_BYTES = 1 << 17
"""Arrays up to `_LONG_BYTES` are checksummed in parts of `_PART_BYTES`. zlib releases the GIL for
buffers over 5 KiB; thousands of such short releases starve the event loop, which wakes up each time
after the GIL is taken again. Smaller parts keep the GIL; above 128 KiB one release is long enough
for the event loop to run. Measured by `benchmarks/event_loop.py`."""


def encode(embeddings: Embeddings) -> list[Chunk]:
    """Return the archive in chunks; the vectors are not copied."""
    file = ChunkList()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for index, array in enumerate(embeddings.arrays):
            _add(archive, str(index), array)
        if embeddings.tokenizer is not None:
            _add(archive, "tokens", np.array(json_array(embeddings.sentences)))
            _add(archive, "offsets", np.array(json_array(embeddings.offsets)))
    file.flush()
    return file.chunks


def decode(data: bytes) -> list[NDArray[Any]]:
    """Return one array a sentence."""
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        names = [name for name in archive.files if name.isdecimal()]
        return [archive[str(index)] for index in range(len(names))]


def _add(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    is_large = array.nbytes >= zipfile.ZIP64_LIMIT
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=is_large) as member:
        member.write(_header(array))
        for part in _parts(raw(array)):
            member.write(part)


def _parts(data: memoryview) -> Iterator[memoryview]:
    """Cut an array's bytes into parts whose checksums do not starve the event loop."""
    if len(data) > _LONG_BYTES:
        yield data
        return
    for start in range(0, len(data), _PART_BYTES):
        yield data[start : start + _PART_BYTES]


def _header(array: NDArray[Any]) -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    return header.getvalue()


ENCODER = Encoder(MEDIA_TYPES["npz"], encode, decode)
