"""Search by a graph of neighbours (Malkov and Yashunin 2016): fast, and nearly always right."""

import errno
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from usearch.compiled import MetricKind, ScalarKind
from usearch.index import Index

from elmo_model.neighbours.errors import IndexFolderError
from elmo_model.neighbours.search import Distances, Numbers

GRAPH: Final = ".usearch"
"""The ending of the file of a graph."""

_CONNECTIVITY: Final = 16
_EXPANSION_ADD: Final = 128
"""Edges of a vector, and candidates for them while the graph is built. Larger numbers find more of
the true neighbours and take more memory and time (`benchmarks/neighbours.py`)."""

_BLOCK: Final = 4_096
"""Vectors that are rounded at once. More take more memory and are no faster."""


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

    def nearest(self, query: NDArray[np.float32], count: int) -> tuple[Numbers, Distances]:
        """Return the numbers of about the `count` vectors with the largest cosine, and how far."""
        with self._lock:  # a search uses memory of its graph
            found = self.index.search(rounded(query[np.newaxis])[0], count, threads=1)
        return np.asarray(found.keys, np.int64), np.asarray(found.distances, np.float32)


def build(vectors: NDArray[np.float16], path: Path) -> None:
    """Write the graph of vectors (N, 2P) to a file, in one thread: the same vectors, the same file.

    Raises OSError.
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
