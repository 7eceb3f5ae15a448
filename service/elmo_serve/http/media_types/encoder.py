"""What every encoding is given, and what it makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_serve.output import Dtype

Chunk = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Answer:
    """The vectors of a request, an array a sentence in its order, and what describes them.

    ``sentences`` are the JSON texts of the lists of tokens; ``shape`` is that of one array, -1 for
    the tokens of its sentence.
    """

    model: str
    revision: str
    dimension: int
    layers: tuple[int, ...] | None
    tokens: int
    arrays: Sequence[NDArray[Any]]
    sentences: Sequence[bytes]
    shape: tuple[int, ...]
    dtype: Dtype


@dataclass(frozen=True, slots=True)
class Encoding:
    """A media type: ``encode`` returns a body in pieces, ``decode`` the arrays of one."""

    media_type: str
    encode: Callable[[Answer], list[Chunk]]
    decode: Callable[[bytes], list[NDArray[Any]]]


def raw(array: NDArray[Any]) -> memoryview:
    """Return an array's bytes without a copy. An empty array has none, and no shape of its own."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
