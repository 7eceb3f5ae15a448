"""Write HDF5 files so that a full disk is an OSError and not a crash.

The HDF5 library reports a failed write late, while it closes the file. It then fails again for
every open object and ends the process with a segmentation fault. `hdf5_writer` therefore gives the
library a file object whose writes never fail, and raises the first error after the library has
closed it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import h5py


class _NeverFailingFile(io.FileIO):
    """A file whose writes never raise. `failure` is the first error; later writes are dropped."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "w+")
        self._end = 0  # size in bytes that the library has to see, dropped writes included
        self.failure: OSError | None = None

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if whence == io.SEEK_END:
            offset += self._end
            whence = io.SEEK_SET
        return super().seek(offset, whence)

    def write(self, data: memoryview, /) -> int:  # type: ignore[override]
        view = memoryview(data).cast("B")
        written = 0
        while written < len(view) and self.failure is None:
            try:
                written += super().write(view[written:])
            except OSError as error:
                self.failure = error
        if self.failure is not None:
            super().seek(len(view) - written, io.SEEK_CUR)
        self._end = max(self._end, self.tell())
        return len(view)

    def truncate(self, size: int | None = None, /) -> int:
        size = self.tell() if size is None else size
        self._end = size
        try:
            super().truncate(size)
        except OSError as error:
            self.failure = self.failure or error
        return size


@contextmanager
def hdf5_writer(path: Path) -> Iterator[tuple[h5py.File, Callable[[], None]]]:
    """Create an HDF5 file; yield it, and a function that raises the OSError of an earlier write.

    Long writers call the function now and then to stop early. The error is raised at the end of
    the block in any case.
    """
    import h5py  # noqa: PLC0415 - the command line knows the formats without this library

    target = _NeverFailingFile(path)

    def check() -> None:
        if target.failure is not None:
            raise target.failure

    try:
        with h5py.File(target, "w") as file:
            yield file, check
        check()
    finally:
        target.close()
