"""Tuning of the C library's allocator for the large, short-lived arrays of a network."""

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8  # glibc's malloc.h
# Bytes. The heap is never trimmed, and grows by at least 64 MiB at a time; a larger number saves
# system calls and wastes memory.
_NEVER, _PAD = (1 << 31) - 1, 64 << 20


def keep_freed_memory() -> bool:
    """Make this process keep the memory that it frees; tell whether the allocator supports it.

    glibc gives large arrays back to the system when they are freed, and the system fills the next
    array with zeros page by page: an eighth of the processor's time for one batch after another.
    Memory that is kept serves every batch, and the process stays as large as its largest batch.

    The setting is one of the whole process. Only programs call this function, for processes that
    are their own: the process of a worker, `elmo embed` and `elmo train`. Call it after the model
    is loaded, so that memory freed during loading goes back to the system. It has no effect on
    other C libraries than glibc.
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
