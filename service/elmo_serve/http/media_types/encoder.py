"""The interface of a media type: what an encoder is given, and what it returns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_serve.selection import Dtype

Chunk = bytes | memoryview

SMALL_BYTES: Final = 1 << 18
"""Bytes of vectors up to which they are encoded on the event loop: it takes less than 1 ms."""


@dataclass(frozen=True, slots=True)
class Embeddings:
    """The vectors of a request, one array a sentence in its order, and what describes them.

    `sentences` are the JSON texts of the lists of tokens. `shape` is the shape of one array, with
    -1 for the number of tokens. `tokens` counts all tokens of the request.

    For a request with text, `tokenizer` is the name of the one that split it, and `offsets` are the
    JSON texts of lists of [start, end].
    """

    model: str
    revision: str
    precision: str
    dimension: int
    layers: tuple[int, ...] | None
    tokens: int
    arrays: Sequence[NDArray[Any]]
    sentences: Sequence[bytes]
    shape: tuple[int, ...]
    dtype: Dtype
    offsets: Sequence[bytes] = ()
    tokenizer: str | None = None


@dataclass(frozen=True, slots=True)
class Encoder:
    """A media type. `encode` returns a response body in chunks.

    `memory_factor` is the memory that encoding takes, against the bytes of the vectors.
    """

    media_type: str
    encode: Callable[[Embeddings], list[Chunk]]
    memory_factor: int = 1


def json_array(texts: Sequence[bytes]) -> bytes:
    """Return the JSON text of an array from those of its items."""
    return b"[" + b",".join(texts) + b"]"


def raw(array: NDArray[Any]) -> memoryview:
    """Return the bytes of an array without a copy; an empty array has none, whatever its shape."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


MEDIA_TYPES: Final = {
    "json": "application/json",
    "npz": "application/x-npz",
    "safetensors": "application/vnd.safetensors",
}
"""The media types of vectors over HTTP, by the name of their format."""
