"""Embeddings made of random arrays, to be written in a media type, and the arrays of a body."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import safetensors.numpy

from elmo_serve.http.media_types import ENCODERS
from elmo_serve.http.media_types.encoder import Embeddings


def arrays(*shapes: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype(dtype) for shape in shapes]


def embeddings(vectors: Sequence[Any], layers: tuple[int, ...] | None = (0, 1, 2)) -> Embeddings:
    sentences = [b'["a", ""]'] * len(vectors)
    shape: tuple[int, ...] = (4,)
    dtype: Any = "float32"
    if vectors:  # of what tests put in, two axes are tokens and width
        shape = (*vectors[0].shape[:-2], -1, 4) if vectors[0].ndim > 1 else (4,)
        dtype = vectors[0].dtype.name
    return Embeddings("m", "r", "float32", 4, layers, 7, vectors, sentences, shape, dtype)


def body(media_type: str, vectors: Sequence[Any]) -> bytes:
    return b"".join(ENCODERS[media_type].encode(embeddings(vectors)))


def decoded(media_type: str, data: bytes) -> list[Any]:
    """Return the array of each sentence."""
    if media_type == "application/json":
        content = orjson.loads(data)
        found = [np.asarray(sentence, np.float32) for sentence in content["embeddings"]]
        # Lists lose the width where there are no tokens.
        width = content["dimension"]
        return [a if a.size else a.reshape(*a.shape[:-1], 0, width) for a in found]
    if media_type == "application/vnd.safetensors":
        tensors = safetensors.numpy.load(data)
    else:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            tensors = {name: archive[name] for name in archive.files if name.isdecimal()}
    return [tensors[str(index)] for index in range(len(tensors))]
