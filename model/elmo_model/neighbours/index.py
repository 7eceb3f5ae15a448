"""An index of uses: the nearest tokens in their sentences, and the nearest words without one."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elmo_model.neighbours.manifest import Manifest
from elmo_model.neighbours.part import AVERAGE, Part, word_matrix
from elmo_model.neighbours.search import FlatSearch, Ids

CANDIDATES: Final = 200
"""Tokens of each searched layer whose cosines are computed exactly. More of them find more of the
true neighbours of a mixture and take longer (`benchmarks/neighbours.py`)."""

MAX_NEIGHBOURS: Final = 100
"""Largest number of neighbours of one search: half of the candidates of one layer, so that most of
the true ones are among them. A long own sentence, which is left out, adds candidates."""


@dataclass(frozen=True, slots=True)
class Use:
    """A token in a sentence of the text, and the cosine of its vector with the one searched."""

    sentence: tuple[str, ...]
    token: int
    cosine: float


@dataclass(frozen=True, slots=True)
class Word:
    """A word, and the cosine of its token layer with the one searched."""

    word: str
    cosine: float


@dataclass(frozen=True, eq=False)
class NeighbourIndex:
    """Parts in the order of the text; `centre` (L + 1, 2P) is the mean of each layer.

    `info` describes the index. `frequent` are the numbers of the most frequent words, the most
    frequent first, and `by_word` searches among them by their token layer. A search only reads, so
    threads may share an index.
    """

    info: Manifest
    centre: NDArray[np.float32]
    parts: Sequence[Part]
    frequent: NDArray[np.uint32]
    by_word: FlatSearch

    def uses(
        self,
        layers: NDArray[np.float32],
        weights: Sequence[float],
        count: int,
        sentence: Sequence[str] = (),
    ) -> list[Use]:
        """Return the uses nearest to a token by the cosine of centred vectors, nearest first.

        The token has the `layers` (L + 1, 2P), and `weights` are the share of each in the vectors
        that are compared. Of uses in equal sentences only the first counts; those of `sentence`,
        that of the token, are left out.
        """
        tokens = self.candidates(layers, weights, count + len(sentence))
        cosines = self.cosines(tokens, layers, weights)
        found: dict[tuple[tuple[str, ...], int], Use] = {}
        for order in np.argsort(-cosines, kind="stable"):
            words, place = self.place(int(tokens[order]))
            if words != tuple(sentence):
                found.setdefault((words, place), Use(words, place, float(cosines[order])))
            if len(found) == count:
                break
        return list(found.values())

    def nearest_words(
        self, vector: NDArray[np.float32], count: int, exclude: str | None = None
    ) -> list[Word]:
        """Return the words whose token layer is nearest to a vector (2P,), without one of them.

        Every use of a word has the same token layer: these are its static neighbours.
        """
        centred = vector.astype(np.float32) - self.centre[0]
        numbers = self._near_words(centred, count + 1)
        cosines = _cosines(self._word_vectors(numbers), centred)
        order = np.argsort(-cosines, kind="stable")
        words = [Word(self._word(int(numbers[row])), float(cosines[row])) for row in order]
        return [word for word in words if word.word != exclude][:count]

    def candidates(self, layers: NDArray[np.float32], weights: Sequence[float], count: int) -> Ids:
        """Return the tokens, numbered over all parts, that `uses` compares exactly.

        They are near in a layer or, for equal shares, in the mean of the layers. There are `count`
        of them at least, of which those of the own sentence are left out.
        """
        centred = layers.astype(np.float32) - self.centre
        shares = np.asarray(weights, np.float32)
        if np.ptp(shares) == 0:
            return np.unique(self._near(AVERAGE, centred.mean(axis=0), count))
        used = np.flatnonzero(shares)
        found = [self._near(str(layer), centred[layer], count) for layer in used if layer]
        if shares[0]:
            found.append(self._uses_of_near_words(centred[0], max(CANDIDATES, count)))
        return np.unique(np.concatenate(found))

    def cosines(
        self, tokens: Ids, layers: NDArray[np.float32], weights: Sequence[float]
    ) -> NDArray[np.float64]:
        """Map tokens (n,) to their cosines with a token, by the stored vectors."""
        shares = np.asarray(weights, np.float32)
        query = shares @ (layers.astype(np.float32) - self.centre)
        return _cosines(self.mixed(tokens, shares), query)

    def mixed(self, tokens: Ids, shares: NDArray[np.float32]) -> NDArray[np.float32]:
        """Map tokens (n,), numbered over all parts, to the weighted sum of their layers (n, 2P)."""
        found = np.zeros((len(tokens), self.centre.shape[1]), np.float32)
        parts = np.searchsorted(self._ends, tokens, side="right")
        for number in np.unique(parts):
            rows = np.flatnonzero(parts == number)
            part, inside = self.parts[number], tokens[rows] - self._start(number)
            for layer in np.flatnonzero(shares):
                if layer:
                    vectors = part.layer(int(layer), inside)
                else:
                    vectors = self._word_vectors(part.token_words[inside].astype(np.int64))
                found[rows] += shares[layer] * vectors
        return found

    def place(self, token: int) -> tuple[tuple[str, ...], int]:
        """Return the sentence of a token, numbered over all parts, and its place in it."""
        number = bisect_right(self._ends, token)
        part, inside = self.parts[number], token - self._start(number)
        start, end = part.place(inside)
        return tuple(self._word(int(word)) for word in part.token_words[start:end]), inside - start

    def _near(self, name: str, query: NDArray[np.float32], count: int) -> Ids:
        """Return the nearest tokens of all parts by the search of a name.

        Each part gives its share of `CANDIDATES`: the nearest ones are spread over the text. It
        gives `count` at least, for they may all be in one part.
        """
        total = max(CANDIDATES, count)
        most = max(CANDIDATES // len(self.parts), count)
        tokens, distances = [], []
        for number, part in enumerate(self.parts):
            found, far = part.searches[name].nearest(query, most)
            tokens.append(found + self._start(number))
            distances.append(far)
        nearest = np.argsort(np.concatenate(distances), kind="stable")[:total]
        return np.concatenate(tokens)[nearest]

    def _uses_of_near_words(self, query: NDArray[np.float32], count: int) -> Ids:
        """Return tokens whose words are nearest by the token layer, in which all uses are equal."""
        words = self._near_words(query, count)
        ranges = np.array([part.postings.ranges(words) for part in self.parts])  # (parts, 2, words)
        found: list[Ids] = []
        missing = count
        for word, number in np.argwhere((ranges[:, 0] < ranges[:, 1]).T).tolist():
            start, end = ranges[number, :, word].tolist()
            uses = self.parts[number].postings.tokens[start : min(end, start + missing)]
            found.append(uses.astype(np.int64) + self._start(number))
            missing -= len(uses)
            if not missing:
                break
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _near_words(self, query: NDArray[np.float32], count: int) -> Ids:
        """Map a vector (2P,) to the numbers of the `count` nearest words, nearest first."""
        rows, _ = self.by_word.nearest(query, count)
        return self.frequent[rows].astype(np.int64)

    def _word_vectors(self, numbers: Ids) -> NDArray[np.float32]:
        return word_matrix(self.parts, numbers).astype(np.float32)

    def _word(self, number: int) -> str:
        part = self.parts[bisect_right(self._first_words, number) - 1]
        return part.words[number - part.first_word]

    def _start(self, number: int) -> int:
        """Return the number of the first token of a part."""
        return self._ends[number - 1] if number else 0

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(part.tokens for part in self.parts))

    @cached_property
    def _first_words(self) -> list[int]:
        return [part.first_word for part in self.parts]


def _cosines(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float64]:
    """Map vectors (n, 2P) to their cosines with a vector; 0 where a vector is zero."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    found = (vectors @ query).astype(np.float64)
    np.divide(found, lengths, out=found, where=lengths > 0)
    return found.clip(-1, 1)
