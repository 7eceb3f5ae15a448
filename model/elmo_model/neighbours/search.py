"""The search for the nearest of many vectors by cosine: exact, or by a graph of neighbours.

The graphs are those of Malkov and Yashunin 2016: fast, and nearly always right.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from usearch.compiled import MetricKind, ScalarKind
from usearch.index import Index, search

from elmo_model.neighbours.text import IndexFolderError

GRAPH: Final = ".usearch"
"""The ending of the file of a graph."""

_CONNECTIVITY: Final = 16
_EXPANSION_ADD: Final = 128
"""Edges of a vector, and candidates for them while the graph is built. Larger numbers find more of
the true neighbours and take more memory and time (`benchmarks/neighbours.py`)."""

_BLOCK: Final = 1_024
"""Vectors that are rounded and added at once, in less than a second. More are no faster."""

Ids = NDArray[np.int64]
"""Numbers of vectors, (n,), from 0 to N - 1."""

Distances = NDArray[np.float32]
"""Distances by cosine, (n,): 0 for the same direction, 2 for the opposite one."""


class Search(Protocol):
    """A search among N vectors of width 2P."""

    def nearest(self, query: NDArray[np.float32], count: int) -> tuple[Ids, Distances]:
        """Map a vector (2P,) to the `count` nearest by cosine, nearest first, and how far.

        The distances are rounded: they are for comparison with one another.
        """


@dataclass(frozen=True, slots=True, eq=False)
class FlatSearch:
    """N vectors (N, 2P) in float16. A search reads all of them: 6 ms for 50,000 of width 384."""

    matrix: NDArray[np.float16]

    def nearest(self, query: NDArray[np.float32], count: int) -> tuple[Ids, Distances]:
        """Return the numbers of the `count` vectors with the largest cosine, and how far."""
        most = min(count, len(self.matrix))
        if not most:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        # One thread: a search must not slow down the workers on the other cores.
        found = search(
            self.matrix, query.astype(np.float16), most, MetricKind.Cos, exact=True, threads=1
        )
        return np.asarray(found.keys, np.int64), np.asarray(found.distances, np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class GraphSearch:
    """A graph of N vectors in int8, memory-mapped.

    The largest number of each vector becomes 127, which changes no cosine. The graph only proposes:
    exact cosines are those of the float16 vectors. An int8 copy is half as large as a float16 one
    and is built in half the time, and 200 candidates from it hold the same 10 nearest.
    """

    index: Index
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Map the graph of a file into memory. Raises IndexFolderError for another file."""
        try:
            index = Index.restore(str(path), view=True)
        except (OSError, RuntimeError, ValueError) as error:
            raise IndexFolderError(f"{path}: is no graph: {error}") from error
        if index is None:
            raise IndexFolderError(f"{path}: is no graph")
        return cls(index)

    def nearest(self, query: NDArray[np.float32], count: int) -> tuple[Ids, Distances]:
        """Return the numbers of about the `count` vectors with the largest cosine, and how far."""
        with self._lock:  # a search uses memory of its graph
            found = self.index.search(rounded(query[np.newaxis])[0], count, threads=1)
        return np.asarray(found.keys, np.int64), np.asarray(found.distances, np.float32)


def build(
    vectors: NDArray[np.float16], path: Path, on_added: Callable[[int], None] = lambda _: None
) -> None:
    """Write the graph of vectors (N, 2P) to a file, in one thread: the same vectors, the same file.

    `on_added` is told how many vectors each block had. Raises OSError.
    """
    index = Index(
        ndim=vectors.shape[1],
        metric=MetricKind.Cos,
        dtype=ScalarKind.I8,
        connectivity=_CONNECTIVITY,
        expansion_add=_EXPANSION_ADD,
    )
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK]
        index.add(np.arange(start, start + len(block)), rounded(block), threads=1)
        on_added(len(block))
    try:
        index.save(str(path))
    except RuntimeError as error:  # the only error of usearch, also for a full disk
        raise OSError(errno.EIO, f"the graph cannot be written: {error}", str(path)) from error


def rounded(vectors: NDArray[np.float16] | NDArray[np.float32]) -> NDArray[np.int8]:
    """Map vectors (n, 2P) to int8, each scaled so that its largest number is 127 or -127."""
    exact = vectors.astype(np.float32)
    largest = np.abs(exact).max(axis=1, keepdims=True)
    scale = np.divide(127, largest, out=np.zeros_like(largest), where=largest > 0)
    found: NDArray[np.int8] = np.rint(exact * scale).astype(np.int8)
    return found
