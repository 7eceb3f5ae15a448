"""Arrays in files, memory-mapped: they need no memory of their size."""

from pathlib import Path
from typing import TypeVar

import numpy as np

from elmo_model.files.runtime import reserve

_Number = TypeVar("_Number", bound=np.generic)
Mapped = np.memmap[tuple[int, ...], np.dtype[_Number]]


def mapped_array(path: Path, shape: tuple[int, ...], dtype: type[_Number]) -> Mapped[_Number]:
    """Write an .npy file of zeros and map it into memory; all of its room on the disk is reserved.

    Raises OSError where the disk is full. A file with holes would raise nothing: a full disk is
    then found at a write into the memory, and is a signal (SIGBUS) that ends the process.
    """
    array: Mapped[_Number] = np.lib.format.open_memmap(path, "w+", dtype, shape)
    with path.open("r+b") as file:
        reserve(file, array.offset, path.stat().st_size)
    return array
