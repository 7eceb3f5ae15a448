"""The results of the language model for one sentence, beside the vectors of `Output`."""

import math
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from elmo_serve.selection import ITEM_SIZES, Output

_SOFTMAX_TOKENS: Final = 4
"""Tokens of vectors that take as long as a word of the softmax over the whole vocabulary
(`benchmarks/RESULTS.md`). A larger value refuses more of such requests beside others."""

Direction = Literal["forward", "backward", "both"]


@dataclass(frozen=True, slots=True)
class Scores:
    """The surprisal of each token: forward, backward, and 1 where it is unknown; the end last."""

    dtype: ClassVar[Literal["float32"]] = "float32"

    def shape(self, tokens: int, dimension: int) -> tuple[int, ...]:
        """Return (3, n + 1)."""
        return (3, tokens + 1)

    def size(self, tokens: int, dimension: int) -> int:
        """Return the size in bytes for one sentence of `tokens` tokens."""
        return math.prod(self.shape(tokens, dimension)) * ITEM_SIZES[self.dtype]

    def work(self, cost: int) -> int:
        """Return the time to compute it, in tokens of vectors; `cost` are those of its sentence."""
        return _SOFTMAX_TOKENS * cost


_SUBSTITUTE_BYTES: Final = 192
"""Longest JSON text of a substitute: a word of 128 bytes, its probability and the names of both."""


@dataclass(frozen=True, slots=True)
class Substitutes:
    """The k most probable words at some places of a sentence: JSON text, filled up with spaces."""

    dtype: ClassVar[Literal["uint8"]] = "uint8"

    positions: tuple[int, ...]
    k: int
    direction: Direction

    def shape(self, tokens: int, dimension: int) -> tuple[int, ...]:
        """Return the size as a shape: the longest text."""
        return (len(self.positions) * (self.k * _SUBSTITUTE_BYTES + 3) + 2,)

    def size(self, tokens: int, dimension: int) -> int:
        """Return the size in bytes."""
        return math.prod(self.shape(tokens, dimension))

    def work(self, cost: int) -> int:
        """Return the time to compute it, in tokens of vectors; `cost` are those of its sentence."""
        return cost + _SOFTMAX_TOKENS * len(self.positions)


Wanted = Output | Scores | Substitutes
"""The result of one sentence: vectors, or those of the language model."""
