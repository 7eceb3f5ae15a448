"""application/vnd.safetensors: a JSON header, then the tensors "0", "1", ... as in memory."""

from typing import Any

import orjson

from elmo_serve.http.media_types.encoder import (
    MEDIA_TYPES,
    Chunk,
    Embeddings,
    Encoder,
    json_array,
    raw,
)

_DTYPES = {"float32": "F32", "float16": "F16"}


def encode(embeddings: Embeddings) -> list[Chunk]:
    """Return the header and the vectors, which are not copied.

    The format (README of safetensors): 8 bytes with the length of the header, little-endian; the
    header, padded with spaces; the tensors without gaps.
    """
    layers = "" if embeddings.layers is None else ",".join(map(str, embeddings.layers))
    entries: dict[str, Any] = {
        "__metadata__": {
            "model": embeddings.model,
            "revision": embeddings.revision,
            "precision": embeddings.precision,
            "dimension": str(embeddings.dimension),
            "layers": layers,
        }
    }
    if embeddings.tokenizer is not None:
        entries["__metadata__"] |= {
            "tokenizer": embeddings.tokenizer,
            "tokens": json_array(embeddings.sentences).decode(),
            "offsets": json_array(embeddings.offsets).decode(),
        }
    dtype = _DTYPES[embeddings.dtype]
    arrays = list(embeddings.arrays)
    start = 0
    for index, array in enumerate(arrays):
        entries[str(index)] = {
            "dtype": dtype,
            "shape": array.shape,
            "data_offsets": (start, start + array.nbytes),
        }
        start += array.nbytes
    header = orjson.dumps(entries)
    header += b" " * (-len(header) % 8)
    views = [raw(array) for array in arrays if array.size]
    return [len(header).to_bytes(8, "little") + header, *views]


ENCODER = Encoder(MEDIA_TYPES["safetensors"], encode)
