"""Files without a name, passed to a child process by descriptor: the body and vectors of a fit.

They vanish with the processes that have them open, also after SIGKILL, and unlike shared memory
they need no room in the main memory.
"""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from elmo_serve.workers.shared_memory import Segment


class ScratchFiles:
    """The files of one job: a context manager that closes them. Knows them for `ChildProcess`."""

    def __init__(self, folder: Path) -> None:
        """Make files in `folder`, which is made when it is missing."""
        self._folder = folder
        self._segments: dict[int, Segment] = {}
        # A thread may write after the end of the job: its descriptor may be another file's then.
        self._lock = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._is_closed = True
            for segment in self._segments.values():
                os.close(segment.descriptor)
            self._segments.clear()

    def create(self, size: int) -> Segment:
        """Return a file of `size` bytes. Raises OSError, also once the files are closed."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self._folder) as file, self._lock:
            if self._is_closed:  # the job has ended while this thread waited for the disk
                raise OSError(errno.EBADF, "the files of the job are closed")
            os.ftruncate(file.fileno(), max(size, 1))
            descriptor = os.dup(file.fileno())
            segment = Segment(len(self._segments) + 1, max(size, 1), descriptor, memoryview(b""))
            self._segments[segment.id] = segment
        return segment

    def holds(self, segment_id: int) -> bool:
        """Tell whether a file is in use."""
        return segment_id in self._segments

    def write(self, segment: Segment, offset: int, data: bytes | memoryview) -> None:
        """Write all of `data` at a byte of the file; nothing once the files are closed.

        Raises OSError, where the disk is full.
        """
        rest = memoryview(data)
        with self._lock:
            while rest and not self._is_closed:
                count = os.pwrite(segment.descriptor, rest, offset)
                rest, offset = rest[count:], offset + count
