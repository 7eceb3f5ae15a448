"""Compares the vectors of each response with those of the first response to the same request."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_serve.http.media_types import ENCODERS
from elmo_serve.output import Dtype, Output

Array = NDArray[Any]

TOLERANCES: dict[Dtype, float] = {"float32": 1e-5, "float16": 1e-3}
"""Largest difference by the dtype of the vectors, relative to the largest number of a sentence."""

KEPT_BYTES = 256 << 20
"""Bytes of vectors that are kept for comparison. With a higher value more requests are compared."""


class Checker:
    """Makes the function of each request that compares its responses.

    The reference is the first response that has the right shapes. `kept_bytes` bounds all
    references together. `dimension` is the width 2P of the model.
    """

    def __init__(
        self,
        media_type: str,
        output: Output,
        dimension: int,
        tolerance: float,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self._decode = ENCODERS[media_type].decode
        self._output = output
        self._dimension = dimension
        self._tolerance = tolerance
        self._left = kept_bytes

    def of(self, lengths: Sequence[int]) -> Callable[[bytes], float | None]:
        """Return the function for a request whose sentences have these numbers of tokens.

        It returns the largest difference of a response in tolerances: above 1 it is wrong. The
        difference is infinite where the response cannot be read, or has other shapes or numbers
        that are not finite. None: there was nothing to compare it with.
        """
        shapes = [self._output.shape(length, self._dimension) for length in lengths]
        return partial(self._difference, shapes, [])

    def _difference(
        self, shapes: list[tuple[int, ...]], reference: list[Array], content: bytes
    ) -> float | None:
        try:
            found = self._decode(content)
        except Exception:  # each format has errors of its own; the response counts as wrong
            return math.inf
        if [array.shape for array in found] != shapes:
            return math.inf
        if not all(np.isfinite(array).all() for array in found):
            return math.inf
        if not reference:
            self._keep(found, reference)
            return None
        return max(map(self._furthest, found, reference), default=0.0)

    def _keep(self, found: Sequence[Array], reference: list[Array]) -> None:
        size = 4 * sum(array.size for array in found)
        if size <= self._left:
            self._left -= size
            reference[:] = [array.astype(np.float32) for array in found]

    def _furthest(self, found: Array, expected: Array) -> float:
        if not found.size:
            return 0.0
        furthest = float(np.abs(found.astype(np.float32) - expected).max())
        scale = float(np.abs(expected).max())
        if not scale:  # an empty sentence pools to zeros
            return math.inf if furthest else 0.0
        return furthest / (self._tolerance * scale)
