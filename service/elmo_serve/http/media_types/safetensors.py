"""application/vnd.safetensors: a JSON header, then the tensors "0", "1", ... as in memory."""

from __future__ import annotations

from typing import Any

import orjson
import safetensors.numpy
from numpy.typing import NDArray

from elmo_serve.http.media_types.encoder import Answer, Chunk, Encoding, raw

_DTYPES = {"float32": "F32", "float16": "F16"}


def encode(answer: Answer) -> list[Chunk]:
    """Return header and vectors, which are not copied.

    The format (safetensors' README): 8 bytes with the header's length, little-endian; the header,
    padded with spaces; the tensors without gaps.
    """
    layers = "" if answer.layers is None else ",".join(map(str, answer.layers))
    entries: dict[str, Any] = {
        "__metadata__": {
            "model": answer.model,
            "revision": answer.revision,
            "dimension": str(answer.dimension),
            "layers": layers,
        }
    }
    start = 0
    for index, array in enumerate(answer.arrays):
        entries[str(index)] = {
            "dtype": _DTYPES[array.dtype.name],
            "shape": array.shape,
            "data_offsets": (start, start + array.nbytes),
        }
        start += array.nbytes
    header = orjson.dumps(entries)
    header += b" " * (-len(header) % 8)
    pieces = [raw(array) for array in answer.arrays if array.size]
    return [len(header).to_bytes(8, "little") + header, *pieces]


def decode(data: bytes) -> list[NDArray[Any]]:
    """Return one array a sentence."""
    tensors = safetensors.numpy.load(data)
    return [tensors[str(index)] for index in range(len(tensors))]


ENCODING = Encoding("application/vnd.safetensors", encode, decode)
