"""One sparse arena of shared memory for request bodies and results."""

from __future__ import annotations

import contextlib
import logging
import math
import mmap
import os
import resource
import weakref
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from multiprocessing.reduction import DupFd
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_serve.errors import Unavailable

Bytes = NDArray[np.uint8]

_log = logging.getLogger("elmo_serve.processes")

_SIZE: Final = 1 << 36
"""Bytes of the arena. A sparse file takes memory only for pages that were written to; a larger one
takes no more of it, and admits more results at a time."""

_ADDRESS_SHARE: Final = 4
"""The arena takes at most one part in so many of the address space that a process may have."""

_PAGE: Final = mmap.PAGESIZE

_GRANULE: Final = 1 << 20
"""Bytes that are given back at a time; smaller pieces take more system calls."""

_GRANULES_A_TRIM: Final = 8
"""Granules that one call of `trim` gives back, in 1 to 8 ms of the event loop."""


@dataclass(frozen=True, slots=True)
class BlockName:
    """A block as a message to another process names it."""

    start: int
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Bytes of the arena from `start` on, in use until the last array over them is freed."""

    start: int
    size: int
    array: Bytes

    def __reduce__(self) -> tuple[type[BlockName], tuple[int, int]]:
        return BlockName, (self.start, self.size)


class ArenaMap:
    """The bytes of an arena in one process: a sparse anonymous file that is mapped once."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._map = mmap.mmap(descriptor, size)
        self._map.madvise(mmap.MADV_DONTDUMP)  # texts of users, and 64 GiB

    def view(self, block: Block | BlockName) -> Bytes:
        """Return the bytes of a block that is in use."""
        return np.frombuffer(self._map, np.uint8, block.size, block.start)


class Arena(ArenaMap):
    """Memory that the server and all of its children share; the server gives blocks of it out.

    Nothing calls a release function: the bytes that a slow client reads hold their array, and its
    end frees the block. A task holds its blocks until its child has answered or has ended, because
    the child may write to them until then. The file is no named shared memory: it ends with its
    processes and does not count against a container's /dev/shm.

    Raises:
        OSError: there is no descriptor, or no address space for the least arena.
    """

    def __init__(self, size: int = _SIZE) -> None:
        self._descriptor = os.memfd_create("elmo-arena", os.MFD_CLOEXEC)
        weakref.finalize(self, os.close, self._descriptor).atexit = False
        self.size = _allowed(size)
        os.ftruncate(self._descriptor, self.size)
        super().__init__(self._descriptor, self.size)
        self._free = [(0, self.size)]  # start and end of each extent, in order, none adjacent
        # Arrays are freed in any thread, in the middle of any function: the finaliser only appends.
        self._released: deque[tuple[int, int]] = deque()
        self._written: dict[int, int] = {}  # granules that may have pages, and their last turn
        self._turn = 0  # calls of `trim` that have looked at all granules

    def __reduce__(self) -> tuple[Any, tuple[Any, int]]:
        # To a process that is being spawned, which inherits the descriptor.
        return _attached, (DupFd(self._descriptor), self.size)

    @property
    def used(self) -> int:
        """Bytes of memory that the arena takes."""
        return os.fstat(self._descriptor).st_blocks * 512

    def acquire(self, size: int) -> Block:
        """Return a block of `size` bytes, in whole pages of its own, whose content is undefined.

        Raises:
            Unavailable: the arena is full.
        """
        self._reclaim()
        size = max(size, 1)
        length = -(-size // _PAGE) * _PAGE
        for index, (start, end) in enumerate(self._free):
            if end - start >= length:
                rest = [(start + length, end)] if end - start > length else []
                self._free[index : index + 1] = rest
                break
        else:
            _log.error("no shared memory", extra={"bytes": length})
            raise Unavailable(
                f"The server cannot allocate {length} bytes of shared memory now.", retry_after=1
            )
        array = np.frombuffer(self._map, np.uint8, size, start)
        weakref.finalize(array, self._released.append, (start, start + length)).atexit = False
        return Block(start, size, array)

    def trim(self) -> bool:
        """Give back some memory that no block has used for two calls; tell whether more is left."""
        self._reclaim()
        unused = [
            granule
            for granule, turn in self._written.items()
            if turn < self._turn and self._is_free(granule * _GRANULE, (granule + 1) * _GRANULE)
        ]
        for granule in unused[:_GRANULES_A_TRIM]:
            del self._written[granule]
            with contextlib.suppress(OSError):  # not every sandbox can: the pages stay
                self._map.madvise(mmap.MADV_REMOVE, granule * _GRANULE, _GRANULE)
        if len(unused) > _GRANULES_A_TRIM:
            return True
        self._turn += 1
        return False

    def _reclaim(self) -> None:
        """Make the extents of released blocks free ones."""
        while self._released:
            start, end = self._released.popleft()
            for granule in range(start // _GRANULE, -(-end // _GRANULE)):
                self._written[granule] = self._turn
            index = bisect_right(self._free, (start, end))
            first, last = index, index
            if index and self._free[index - 1][1] == start:
                first, start = index - 1, self._free[index - 1][0]
            if index < len(self._free) and self._free[index][0] == end:
                last, end = index + 1, self._free[index][1]
            self._free[first:last] = [(start, end)]

    def _is_free(self, start: int, end: int) -> bool:
        index = bisect_right(self._free, (start, self.size)) - 1
        return index >= 0 and self._free[index][1] >= end


def _allowed(size: int) -> int:
    """Return the bytes that the limits of this process leave an arena, at most `size`."""
    for limit, share in ((resource.RLIMIT_AS, _ADDRESS_SHARE), (resource.RLIMIT_FSIZE, 1)):
        soft, _ = resource.getrlimit(limit)
        if soft != resource.RLIM_INFINITY:
            size = min(size, soft // share)
    return size // _PAGE * _PAGE


def _attached(descriptor: Any, size: int) -> ArenaMap:
    """Map an arena in a process that was spawned with its descriptor."""
    inherited = descriptor.detach()
    try:
        return ArenaMap(inherited, size)
    finally:
        os.close(inherited)


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of one sentence: an array of `shape` and `dtype` at byte `offset` of a block."""

    block: Block
    offset: int
    shape: tuple[int, ...]
    dtype: str

    def numpy(self) -> NDArray[Any]:
        """Return the vectors as an array over the block, without a copy."""
        return view(self.block.array, self.offset, self.shape, self.dtype)


def view(array: Bytes, offset: int, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """Return part of a block's array as vectors; the view keeps the block in use."""
    wanted = np.dtype(dtype)
    size = math.prod(shape) * wanted.itemsize
    return array[offset : offset + size].view(wanted).reshape(shape)
