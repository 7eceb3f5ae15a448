"""Writes one part of an index from the vectors of its sentences, which come in any order."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_model.neighbours.errors import IndexFolderError
from elmo_model.neighbours.flat_search import FlatSearch
from elmo_model.neighbours.part import AVERAGE, Part, word_numbers
from elmo_model.neighbours.postings import Postings
from elmo_model.neighbours.word_list import WordList

Room = Callable[[str, tuple[int, ...]], NDArray[np.float16]]
"""Gives the array of a name and a shape: in memory, or in a memory-mapped file."""


def in_memory(_: str, shape: tuple[int, ...]) -> NDArray[np.float16]:
    """Return a room in memory."""
    return np.zeros(shape, np.float16)


class PartWriter:
    """Takes the layers of each sentence; `finish` returns the part."""

    def __init__(
        self,
        sentences: Sequence[Sequence[str]],
        centre: NDArray[np.float32],
        known: Mapping[str, int],
        room: Room = in_memory,
    ) -> None:
        """Lay the part out; `centre` (L + 1, 2P) is subtracted from all vectors.

        `known` has the numbers of the words of earlier parts.
        """
        layers, width = centre.shape
        self._centre = centre
        self._first = len(known)
        self._token_words, words = word_numbers(sentences, known)
        self._words = WordList.of(words)
        self._starts = np.cumsum([0, *map(len, sentences)], dtype=np.uint64)
        self._word_vectors = room("word_vectors", (len(words), width))
        names = [*map(str, range(1, layers)), AVERAGE]
        shape = len(self._token_words), width
        self._vectors = {name: room(name, shape) for name in names}

    def write(self, number: int, layers: NDArray[Any]) -> None:
        """Write the layers (L + 1, n, 2P) of a sentence of n tokens.

        Raises IndexFolderError for a number that float16 cannot hold.
        """
        centred = layers.astype(np.float32) - self._centre[:, np.newaxis]
        if not np.abs(centred).max(initial=0) <= np.finfo(np.float16).max:  # false for NaN as well
            raise IndexFolderError("the vectors of this model do not fit into float16")
        rows = slice(int(self._starts[number]), int(self._starts[number + 1]))
        self._vectors[AVERAGE][rows] = centred.mean(axis=0)
        for layer, vectors in enumerate(centred[1:], start=1):
            self._vectors[str(layer)][rows] = vectors
        words = self._token_words[rows].astype(np.int64) - self._first
        is_new = words >= 0
        self._word_vectors[words[is_new]] = centred[0, is_new]

    def finish(self) -> Part:
        """Return the part, once all of its sentences are written."""
        return Part(
            self._first,
            self._words,
            self._word_vectors,
            self._token_words,
            Postings.of(self._token_words),
            self._starts,
            [vectors for name, vectors in self._vectors.items() if name != AVERAGE],
            {name: FlatSearch(vectors) for name, vectors in self._vectors.items()},
        )
