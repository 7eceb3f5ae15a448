"""A reference-counted pool of shared memory for request bodies and results."""

from __future__ import annotations

import ctypes
import logging
import math
import mmap
import os
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_serve.errors import Unavailable

Bytes = NDArray[np.uint8]

_log = logging.getLogger("elmo_serve.workers")

_SMALLEST = 1 << 16
"""Bytes of the smallest segment; a larger value wastes memory on short answers."""

_FREE_BYTES = 1 << 28
"""Bytes of free segments kept for reuse; more of them save page faults and hold memory."""

_FREE_SEGMENTS = 128
"""Free segments kept for reuse; each holds one file descriptor."""


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A mapped anonymous file of `size` bytes.

    `id` names it in messages to other processes, `descriptor` is the file in this process. The
    mapping and the descriptor are closed when the object is freed.
    """

    id: int
    size: int
    descriptor: int
    memory: memoryview

    def __reduce__(self) -> tuple[type[SegmentHandle], tuple[int, int]]:
        # A message carries the id only; ChildProcess.send passes the descriptor.
        return SegmentHandle, (self.id, self.size)


@dataclass(frozen=True, slots=True)
class SegmentHandle:
    """A segment as a message to another process names it."""

    id: int
    size: int


class SharedMemoryPool:
    """Segments that return to the pool when the last array over them is freed.

    Nothing calls a release function: the bytes that a slow client reads hold their array, the array
    holds its segment, and the next batch gets another segment. The engine's limit on the bytes of
    answers bounds the memory. Segments are anonymous files and not named shared memory: they vanish
    with their processes and do not count against a container's /dev/shm.
    """

    def __init__(self) -> None:
        self._free: list[Segment] = []
        self._all: dict[int, Segment] = {}
        self._last_id = 0
        # Arrays are freed in any thread, in the middle of any function: the finaliser only appends.
        self._released: deque[Segment] = deque()

    @property
    def size(self) -> int:
        """Bytes of all segments, in use and free."""
        return sum(segment.size for segment in self._all.values())

    def acquire(self, size: int) -> tuple[Segment, Bytes]:
        """Return a segment of at least `size` bytes, and the array that keeps it in use.

        Raises:
            Unavailable: the process has no memory or no file descriptor left.
        """
        self._reclaim()
        segment = self._reuse(size) or self._create(size)
        array = np.frombuffer(segment.memory, np.uint8)
        weakref.finalize(array, self._released.append, segment).atexit = False
        return segment, array

    def holds(self, segment_id: int) -> bool:
        """Tell whether a segment is in use or kept for reuse."""
        return segment_id in self._all

    def _reuse(self, size: int) -> Segment | None:
        fitting = [s for s in self._free if size <= s.size <= max(4 * size, _SMALLEST)]
        if not fitting:
            return None
        segment = min(fitting, key=lambda s: s.size)
        self._free.remove(segment)
        return segment

    def _create(self, size: int) -> Segment:
        rounded = max(_SMALLEST, 1 << (size - 1).bit_length())
        try:
            descriptor, memory = _allocate(rounded)
        except (OSError, MemoryError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            _log.error("no shared memory", extra={"bytes": rounded, "reason": reason})
            raise Unavailable(
                f"The server cannot allocate {rounded} bytes of shared memory now: {reason}.",
                retry_after=1,
            ) from error
        self._last_id += 1
        segment = Segment(self._last_id, rounded, descriptor, memory)
        self._all[segment.id] = segment
        return segment

    def _reclaim(self) -> None:
        """Make released segments free ones, and drop the oldest of those beyond the limits."""
        while self._released:
            self._free.append(self._released.popleft())
        surplus = sum(s.size for s in self._free) - _FREE_BYTES
        while surplus > 0 or len(self._free) > _FREE_SEGMENTS:
            oldest = self._free.pop(0)
            surplus -= oldest.size
            del self._all[oldest.id]


@dataclass(frozen=True, slots=True)
class Vectors:
    """One sentence's vectors: a part of a segment that `array` keeps from being reused.

    The part begins `offset` bytes into the segment and holds an array of `shape` and `dtype`.
    `unknown` is the number of tokens without a word vector, where word vectors are appended.
    """

    array: Bytes
    segment: Segment
    offset: int
    shape: tuple[int, ...]
    dtype: str
    unknown: int = 0

    def numpy(self) -> NDArray[Any]:
        """Return the vectors as an array over the segment, without a copy."""
        return view(self.array, self.offset, self.shape, self.dtype)


def view(array: Bytes, offset: int, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """Return part of a segment's array as vectors; the view keeps the segment in use."""
    wanted = np.dtype(dtype)
    size = math.prod(shape) * wanted.itemsize
    return array[offset : offset + size].view(wanted).reshape(shape)


def map_descriptor(descriptor: int, size: int) -> memoryview:
    """Map a file of `size` bytes for reading and writing, shared with other processes.

    The mapping is undone when the last view of it is freed. Python's own `mmap` duplicates the
    descriptor before version 3.13; a request body would then hold three descriptors, not two.

    Raises:
        OSError: there is no address space left.
    """
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    address = _libc.mmap(None, size, protection, mmap.MAP_SHARED, descriptor, 0)
    if address in (None, _MAP_FAILED):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    memory = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(memory, _libc.munmap, address, size).atexit = False
    return memoryview(memory)


_MAP_FAILED = ctypes.c_void_p(-1).value
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
    *(ctypes.c_int, ctypes.c_int, ctypes.c_long),
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


def _allocate(size: int) -> tuple[int, memoryview]:
    """Return the descriptor and the mapping of a new anonymous file."""
    descriptor = os.memfd_create("elmo-vectors", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, size)
        memory = map_descriptor(descriptor, size)
    except BaseException:
        os.close(descriptor)
        raise
    weakref.finalize(memory, os.close, descriptor).atexit = False
    return descriptor, memory
