"""The interface of a search for the nearest of many vectors: exact, or by a graph."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
"""Numbers of vectors, (n,), from 0 to N - 1."""

Distances = NDArray[np.float32]
"""Distances by cosine, (n,): 0 for the same direction, 2 for the opposite one."""


class Search(Protocol):
    """A search among N vectors of width 2P."""

    def nearest(self, query: NDArray[np.float32], count: int) -> tuple[Numbers, Distances]:
        """Map a vector (2P,) to the `count` nearest by cosine, nearest first, and how far.

        The distances are rounded: they are for comparison with one another.
        """
