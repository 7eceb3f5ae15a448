"""What a client asks for of one sentence: layers, mixture, pooling, dtype and shape."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Pooling = Literal["none", "mean", "max"]
Dtype = Literal["float32", "float16"]
ITEM_SIZES: dict[Dtype, int] = {"float32": 4, "float16": 2}


@dataclass(frozen=True, slots=True)
class Output:
    """What is wanted of one sentence; sentences with different outputs share a batch.

    ``layers`` are numbers in the order they are answered; ``weights`` are the raw scalars of a
    mixture, before the softmax. Exactly one of them is given. ``stacked`` keeps the layer axis.
    """

    layers: tuple[int, ...] | None = None
    weights: tuple[float, ...] | None = None
    gamma: float = 1.0
    layer_norm: bool = False
    stacked: bool = False
    pooling: Pooling = "none"
    dtype: Dtype = "float32"

    def shape(self, tokens: int, dimension: int) -> tuple[int, ...]:
        """Return (layers, n, 2P) when stacked, (n, 2P) when not; pooling removes the n."""
        stack = (len(self.layers),) if self.stacked and self.layers is not None else ()
        rows = (tokens,) if self.pooling == "none" else ()
        return (*stack, *rows, dimension)

    def size(self, tokens: int, dimension: int) -> int:
        """Return the bytes of one sentence of ``tokens`` tokens."""
        return math.prod(self.shape(tokens, dimension)) * ITEM_SIZES[self.dtype]
