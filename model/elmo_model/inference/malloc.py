"""How the C library's allocator treats the large, short-lived arrays of a network."""

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8  # glibc's malloc.h
_NEVER, _PAD = (1 << 31) - 1, 64 << 20  # bytes


def keep_memory() -> bool:
    """Let this process keep the memory that it frees; tell whether the allocator knows how to.

    glibc gives large arrays back to the system when they are freed, and the system fills the next
    one with zeros, page by page: an eighth of the processor's time for batches that come one after
    another. Kept, the same pages serve all of them, and the process stays as large as its
    largest batch made it. Elsewhere than on glibc nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = {_MMAP_MAX: 0, _TRIM_THRESHOLD: _NEVER, _TOP_PAD: _PAD, _ARENA_MAX: 1}
    done = [mallopt(number, value) == 1 for number, value in settings.items()]
    return all(done)
