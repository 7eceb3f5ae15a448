"""Shared memory for results: anonymous files, lent out and taken back by reference count."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

_SMALLEST = 1 << 16
_KEPT_FREE = 1 << 28  # bytes of unused segments kept for reuse: a new one costs a fault per page
_MOST_FREE = 128  # likewise; each of them holds two descriptors


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """An anonymous file: ``descriptor`` is this process's, ``id`` names it between processes.

    Mapping and descriptor are closed with the object.
    """

    id: int
    size: int
    descriptor: int
    memory: mmap.mmap

    def __reduce__(self) -> tuple[type[SegmentHandle], tuple[int, int]]:
        return SegmentHandle, (self.id, self.size)  # memory does not travel: see Child.submit


@dataclass(frozen=True, slots=True)
class SegmentHandle:
    """A segment as another process hears of it."""

    id: int
    size: int


class SharedMemoryPool:
    """Lends segments; one comes back when the last array over it is gone.

    Nobody has to say that an answer was sent: a slow client's bytes hold their array, the array
    holds its segment, and the next batch is given another one. What bounds the memory is the
    engine's limit on the bytes of answers admitted. Files rather than named shared memory, because
    they vanish with their processes and do not count against a container's /dev/shm.
    """

    def __init__(self) -> None:
        self._free: list[Segment] = []
        self._alive: dict[int, Segment] = {}
        self._lent: weakref.WeakValueDictionary[int, Bytes] = weakref.WeakValueDictionary()
        self._last_id = 0
        # Arrays die in any thread and in the middle of anything: their finaliser only appends here.
        self._returned: deque[Segment] = deque()

    def acquire(self, size: int) -> tuple[Segment, Bytes]:
        """Return a segment of at least ``size`` bytes and the array that keeps it lent."""
        self._collect()
        segment = self._take(size) or self._make(size)
        array = np.frombuffer(segment.memory, np.uint8)
        weakref.finalize(array, self._returned.append, segment).atexit = False
        self._lent[segment.id] = array
        return segment, array

    def array(self, segment: Segment) -> Bytes:
        """Return the array that keeps a segment lent, for one more who writes to it.

        Raises KeyError when it is not lent.
        """
        return self._lent[segment.id]

    def is_alive(self, segment_id: int) -> bool:
        """Say whether a segment is lent or kept for reuse."""
        return segment_id in self._alive

    @property
    def size(self) -> int:
        """Bytes of all segments, lent and free."""
        return sum(segment.size for segment in self._alive.values())

    def _take(self, size: int) -> Segment | None:
        fitting = [s for s in self._free if size <= s.size <= max(4 * size, _SMALLEST)]
        if not fitting:
            return None
        segment = min(fitting, key=lambda s: s.size)
        self._free.remove(segment)
        return segment

    def _make(self, size: int) -> Segment:
        rounded = max(_SMALLEST, 1 << (size - 1).bit_length())
        descriptor = _anonymous_file()
        os.ftruncate(descriptor, rounded)
        self._last_id += 1
        memory = mmap.mmap(descriptor, rounded)
        weakref.finalize(memory, os.close, descriptor).atexit = False
        segment = Segment(self._last_id, rounded, descriptor, memory)
        self._alive[segment.id] = segment
        return segment

    def _collect(self) -> None:
        while self._returned:
            self._free.append(self._returned.popleft())
        surplus = sum(s.size for s in self._free) - _KEPT_FREE
        while surplus > 0 or len(self._free) > _MOST_FREE:
            oldest = self._free.pop(0)
            surplus -= oldest.size
            del self._alive[oldest.id]


def map_segment(descriptor: int, size: int) -> mmap.mmap:
    """Map a segment received from another process and close the descriptor it came as."""
    try:
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("elmo-vectors", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def view(array: Bytes, offset: int, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """Return part of a lent array as vectors; the view keeps the segment lent."""
    wanted = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * wanted.itemsize
    return array[offset : offset + size].view(wanted).reshape(shape)


@dataclass(frozen=True, slots=True)
class Vectors:
    """One sentence's vectors: a part of a segment that `array` keeps from being reused.

    The part begins `offset` bytes into the segment and holds an array of `shape` and `dtype`.
    """

    array: Bytes
    segment: Segment
    offset: int
    shape: tuple[int, ...]
    dtype: str

    def numpy(self) -> NDArray[Any]:
        """Return the vectors as an array over the segment, without a copy."""
        return view(self.array, self.offset, self.shape, self.dtype)
