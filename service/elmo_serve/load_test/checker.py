"""Compares the vectors of responses with a reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_serve.http.media_types import ENCODERS
from elmo_serve.load_test.workload import Body
from elmo_serve.output import Dtype, Output

Array = NDArray[Any]

TOLERANCES: dict[Dtype, float] = {"float32": 1e-5, "float16": 1e-3}
"""Largest difference by the dtype of the vectors, relative to the largest number of a sentence."""

KEPT_BYTES = 256 << 20
"""Bytes of vectors that are kept for comparison. With a higher value more bodies are compared."""


@dataclass(frozen=True, slots=True)
class _Expected:
    """The vectors of each sentence of a body, and the largest absolute number of each."""

    arrays: Sequence[Array]
    scales: Sequence[float]

    @classmethod
    def of(cls, arrays: Sequence[Array]) -> _Expected:
        kept = [array.astype(np.float32) for array in arrays]
        return cls(kept, [float(np.abs(array).max(initial=0.0)) for array in kept])


class Checker:
    """Compares each response with the reference of its body.

    The reference of a body is given to `expect`; without it, it is the first response to the body
    that has the right shapes. `kept_bytes` bounds all references together. `dimension` is the
    width 2P of the model.
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
        self._expected: dict[int, _Expected] = {}

    def expect(self, number: int, arrays: Sequence[Array]) -> bool:
        """Expect these vectors, an array a sentence, of body `number`; tell if there was room."""
        size = 4 * sum(array.size for array in arrays)
        if size > self._left:
            return False
        self._left -= size
        self._expected[number] = _Expected.of(arrays)
        return True

    def difference(self, number: int, body: Body, content: bytes) -> float | None:
        """Return the largest difference of a response in tolerances: above 1 it is wrong.

        It is infinite where the response cannot be read, or has other shapes or numbers that are
        not finite. None: there was nothing to compare it with.
        """
        arrays = self._arrays(body, content)
        if arrays is None:
            return math.inf
        expected = self._expected.get(number)
        if expected is None:
            self.expect(number, arrays)
            return None
        pairs = zip(arrays, expected.arrays, expected.scales, strict=True)
        return max((self._furthest(*each) for each in pairs), default=0.0)

    def _arrays(self, body: Body, content: bytes) -> list[Array] | None:
        """Return the arrays of a response, None where they cannot be those of the body."""
        try:
            arrays = self._decode(content)
        except Exception:  # each format has errors of its own; the body counts as wrong
            return None
        shapes = [self._output.shape(len(each), self._dimension) for each in body.sentences]
        if [array.shape for array in arrays] != shapes:
            return None
        return arrays if all(np.isfinite(array).all() for array in arrays) else None

    def _furthest(self, found: Array, expected: Array, scale: float) -> float:
        if not found.size:
            return 0.0
        furthest = float(np.abs(found.astype(np.float32) - expected).max())
        if not scale:  # an empty sentence pools to zeros
            return math.inf if furthest else 0.0
        return furthest / (self._tolerance * scale)
