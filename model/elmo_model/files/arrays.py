"""Arrays and lists of words in files, memory-mapped: they need no memory of their size."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

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


@dataclass(frozen=True, slots=True, eq=False)
class WordList:
    """N words: `text` has the UTF-8 of all of them, `ends` (N,) the end of each in bytes."""

    text: NDArray[np.uint8]
    ends: NDArray[np.uint64]

    @classmethod
    def open(cls, text: Path, ends: Path) -> Self:
        """Map the arrays of two files into memory.

        Raises OSError, EOFError, and ValueError for a text that is not these words in UTF-8.
        """
        found = np.empty(0, np.uint8)
        if text.stat().st_size:  # a file of no bytes cannot be mapped
            found = np.asarray(np.memmap(text, np.uint8, "r"))
        lengths = np.asarray(np.load(ends, mmap_mode="r", allow_pickle=False))
        if lengths.dtype != np.uint64 or lengths.ndim != 1 or (lengths[1:] < lengths[:-1]).any():
            raise ValueError("the ends of the words do not ascend")
        if (int(lengths[-1]) if len(lengths) else 0) != len(found):
            raise ValueError("the words end before or behind their text")
        found.tobytes().decode("utf-8", "surrogatepass")
        return cls(found, lengths)

    @classmethod
    def of(cls, words: Sequence[str]) -> Self:
        """Return the list of some words."""
        # A word of JSON may hold a lone surrogate.
        encoded = [word.encode("utf-8", "surrogatepass") for word in words]
        ends = np.cumsum([len(word) for word in encoded], dtype=np.uint64)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), ends)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: int) -> str:
        return self.utf8(number).decode("utf-8", "surrogatepass")

    def utf8(self, number: int) -> bytes:
        """Return the bytes of a word, which need not be valid UTF-8."""
        start = int(self.ends[number - 1]) if number else 0
        return self.text[start : int(self.ends[number])].tobytes()
