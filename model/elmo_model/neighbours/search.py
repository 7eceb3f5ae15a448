"""The search for the nearest of many vectors by cosine, which compares all of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from usearch.compiled import MetricKind
from usearch.index import search

Ids = NDArray[np.int64]
"""Numbers of vectors, (n,), from 0 to N - 1."""

Distances = NDArray[np.float32]
"""Distances by cosine, (n,): 0 for the same direction, 2 for the opposite one."""


@dataclass(frozen=True, slots=True, eq=False)
class FlatSearch:
    """N vectors (N, 2P) in float16. A search reads all of them: 6 ms for 50,000 of width 384."""

    matrix: NDArray[np.float16]

    def nearest(self, query: NDArray[np.float32], count: int) -> tuple[Ids, Distances]:
        """Map a vector (2P,) to the `count` nearest by cosine, nearest first, and how far.

        The distances are rounded: they are for comparison with one another.
        """
        most = min(count, len(self.matrix))
        if not most:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        # One thread: a search must not slow down the workers on the other cores.
        found = search(
            self.matrix, query.astype(np.float16), most, MetricKind.Cos, exact=True, threads=1
        )
        return np.asarray(found.keys, np.int64), np.asarray(found.distances, np.float32)
