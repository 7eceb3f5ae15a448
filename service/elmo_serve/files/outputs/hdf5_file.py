"""HDF5 files whose writer survives a full disk.

The HDF5 library keeps quiet about a failed write until it closes the file, fails again there and
then crashes the process at its end. So it is given a file that never fails: the first error is
kept, and raised once the library has let go.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t
from numpy.typing import NDArray


class Sink(io.RawIOBase):
    """A file that takes everything; `failure` is the first error, after which it writes nothing."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b", buffering=0)
        self._end = 0
        self.failure: OSError | None = None

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            offset += self._end
            whence = io.SEEK_SET
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        return self._file.readinto(buffer)

    def write(self, data: memoryview) -> int:  # type: ignore[override]
        view = memoryview(data).cast("B")
        written = 0
        while written < len(view) and self.failure is None:
            try:
                written += self._file.write(view[written:])
            except OSError as error:
                self.failure = error
        if self.failure is not None:
            self._file.seek(len(view) - written, io.SEEK_CUR)
        self._end = max(self._end, self._file.tell())
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        size = self.tell() if size is None else size
        self._end = size
        try:
            self._file.truncate(size)
        except OSError as error:
            self.failure = self.failure or error
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


@contextmanager
def hdf5(path: Path) -> Iterator[tuple[h5py.File, Callable[[], None]]]:
    """Make an HDF5 file; what comes with it raises the OSError of a write that failed."""
    sink = Sink(path)

    def check() -> None:
        if sink.failure is not None:
            raise sink.failure

    try:
        with h5py.File(sink, "w") as file:
            yield file, check
        check()
    finally:
        sink.close()


def adder(file: h5py.File) -> Callable[[int, NDArray[Any]], None]:
    """Return a function that adds an array as the dataset of that number.

    The same file as by `File.create_dataset`, in half the time: that decides anew for each dataset
    what is the same for all of them.
    """
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_obj_track_times(False)
    kind = functools.cache(functools.partial(h5t.py_create, logical=True))
    space = functools.lru_cache(maxsize=1024)(h5s.create_simple)

    def add(number: int, array: NDArray[Any]) -> None:
        array = np.ascontiguousarray(array)
        its_kind = kind(array.dtype)
        dataset = h5d.create(file.id, b"%d" % number, its_kind, space(array.shape), properties)
        dataset.write(h5s.ALL, h5s.ALL, array, its_kind)

    return add
