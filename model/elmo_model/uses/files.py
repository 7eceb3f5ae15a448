"""An index of uses as a folder of files, which processes share through the page cache.

index.json      the description, and its version
centre.npy      float32 (L + 1, 2P), the mean of each layer
words.txt       the W words, one a line
tokens.npy      uint32 (N,), the number of each token's word
starts.npy      uint64 (S + 1,), the first token of each sentence, and N
lines.npy       uint64 (S,), the line of each sentence in its text, from 1; may be missing
0.npy           float16 (W, 2P), the token layer of each word, centred
1.npy, 2.npy    float16 (N, 2P), one for each layer above 0, centred
"""

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from tokenize import TokenError
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_model.files.atomic import write_bytes
from elmo_model.files.locks import locked_folder, share_folder
from elmo_model.system import mapped_array
from elmo_model.uses.examples import examples_of
from elmo_model.uses.index import IndexInfo, UsesIndex
from elmo_model.uses.text import IndexFolderError, Sentences
from elmo_model.validation import validated

VERSION: Final = 4
FILE: Final = "index.json"
_LINES: Final = "lines.npy"

# numpy evaluates the header of a file as Python.
_FAULTS: Final = (
    *(OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError),
    *(SyntaxError, TokenError, MemoryError, RecursionError),
)


class IndexWriter:
    """Takes the layers of each sentence; the arrays are in memory, or in files of a folder."""

    def __init__(
        self,
        info: IndexInfo,
        centre: NDArray[np.float32],
        sentences: Sentences,
        folder: Path | None = None,
        lines: Sequence[int] | None = None,
    ) -> None:
        """Allocate the vectors of all sentences, which stand in these lines of their text.

        Raises OSError where the disk is full.
        """
        numbers: dict[str, int] = {}
        tokens = [numbers.setdefault(word, len(numbers)) for each in sentences for word in each]
        lengths = list(map(len, sentences))
        info = replace(info, tokens=len(tokens), sentences=len(sentences), words=len(numbers))
        shapes = [(info.words if layer == 0 else info.tokens) for layer in range(info.layers)]
        self._folder = folder
        self._index = UsesIndex(
            info,
            centre,
            list(numbers),
            np.array(tokens, np.uint32),
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64),
            [self._allocate(layer, (rows, info.dimension)) for layer, rows in enumerate(shapes)],
            None if lines is None else np.array(lines, np.uint64),
        )

    def write(self, number: int, layers: NDArray[Any]) -> None:
        """Write the layers (L + 1, n, 2P) of a sentence of n tokens.

        Raises IndexFolderError for a number that float16 cannot hold.
        """
        index = self._index
        centred = layers.astype(np.float32) - index.centre[:, np.newaxis]
        if not np.abs(centred).max(initial=0) <= np.finfo(np.float16).max:  # false for NaN as well
            raise IndexFolderError("the vectors of this model do not fit into float16")
        rows = slice(*map(int, index.starts[number : number + 2]))
        index.vectors[0][index.tokens[rows]] = centred[0]
        for stored, layer in zip(index.vectors[1:], centred[1:], strict=True):
            stored[rows] = layer

    def finish(self) -> UsesIndex:
        """Write the other files of the folder, if any; return the index, which is complete."""
        index, folder = self._index, self._folder
        if folder is not None:
            index = replace(index, info=replace(index.info, examples=examples_of(index)))
            np.save(folder / "centre.npy", index.centre)
            np.save(folder / "tokens.npy", index.tokens)
            np.save(folder / "starts.npy", index.starts)
            if index.lines is not None:
                np.save(folder / _LINES, index.lines)
            text = "".join(f"{word}\n" for word in index.words)
            (folder / "words.txt").write_bytes(text.encode("utf-8", "surrogatepass"))
            facts = {"version": VERSION, **asdict(index.info)}
            write_bytes(folder / FILE, json.dumps(facts, indent=1).encode())
        return index

    def _allocate(self, layer: int, shape: tuple[int, int]) -> NDArray[np.float16]:
        if self._folder is None:
            return np.zeros(shape, np.float16)
        return np.asarray(mapped_array(self._folder / f"{layer}.npy", shape, np.float16))


def open_index(folder: Path) -> UsesIndex:
    """Map an index into memory.

    Sizes, types and shapes are checked, not the vectors. Raises IndexFolderError for a folder that
    is no index, or a damaged one.
    """
    try:
        facts = json.loads((folder / FILE).read_bytes())
        if facts.pop("version") != VERSION:
            raise ValueError("it is of another version: make it anew")
        info = validated(IndexInfo, facts)
        lines = folder / _LINES
        words = (folder / "words.txt").read_bytes().decode("utf-8", "surrogatepass").split("\n")
        index = UsesIndex(
            info,
            _array(folder / "centre.npy", np.float32, (info.layers, info.dimension)),
            words[:-1],
            _array(folder / "tokens.npy", np.uint32, (info.tokens,)),
            _array(folder / "starts.npy", np.uint64, (info.sentences + 1,)),
            [
                _array(
                    folder / f"{layer}.npy",
                    np.float16,
                    (info.tokens if layer else info.words, info.dimension),
                )
                for layer in range(info.layers)
            ],
            _array(lines, np.uint64, (info.sentences,)) if lines.exists() else None,
        )
        starts = index.starts
        if (
            len(index.words) != info.words
            or index.tokens.max() >= info.words
            or starts[0] != 0
            or starts[-1] != info.tokens
            or (starts[1:] < starts[:-1]).any()
        ):
            raise ValueError("words, tokens and sentences do not fit together")
    except _FAULTS as error:
        why = getattr(error, "strerror", None) or error
        raise IndexFolderError(f"{folder} is no index of `elmo index`: {why}") from error
    return index


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Make a folder in `parent`, which is made as well; remove it at the end if it is still there.

    A shared lock tells others that it is in use: what a killed process has left is removed. Raises
    OSError where no folder can be made.
    """
    folder = parent / f".elmo-uses-{secrets.token_hex(8)}.tmp"
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        stack.callback(os.close, share_folder(folder))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        for path in parent.glob(".elmo-uses-*.tmp"):
            with suppress(OSError), locked_folder(path):
                shutil.rmtree(path)
        yield folder


def _array(path: Path, dtype: type[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
        raise ValueError(
            f"{path.name} is {array.dtype} {array.shape}, expected {np.dtype(dtype)} {shape}"
        )
    return np.asarray(array)
