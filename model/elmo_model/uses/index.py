"""An index of uses: the nearest tokens in their sentences, and the nearest words without one."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from usearch.compiled import MetricKind
from usearch.index import search

CANDIDATES: Final = 400
"""Nearest tokens of each layer whose cosines are computed for a mixture. More of them find more of
its true neighbours in a large text, and take longer."""

MAX_NEIGHBOURS: Final = 100
"""Largest number of neighbours of one search: more make a longer response."""

_PIECE: Final = 1 << 14
"""Words that are compared without a turn for other threads: 0.4 ms. More of them hold up the event
loop of a server."""

Ids = NDArray[np.int64]
"""Numbers of tokens or words, (n,)."""


@dataclass(frozen=True, slots=True)
class Example:
    """A word, and sentences with it, whose tokens have spaces between them."""

    word: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """The description of an index: its text, the model that computed it, and its sizes.

    `tokenizer` has split the text. `layers` is L + 1, `dimension` 2P. `centre` names the text of
    the centre, which is a mean over `centre_tokens` tokens; None for that of the built-in text.
    `examples` are words whose uses differ; a small text has none.
    """

    text: str
    model: str
    revision: str
    layers: int
    dimension: int
    tokenizer: str
    tokens: int = 0
    sentences: int = 0
    words: int = 0
    centre: str | None = None
    centre_tokens: int | None = None
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class Use:
    """A token in a sentence of the text; `line` is that of the sentence, None where unknown."""

    sentence: tuple[str, ...]
    token: int
    line: int | None


@dataclass(frozen=True, slots=True)
class NearUse(Use):
    """A use, and the cosine of its vector with the one searched."""

    cosine: float


@dataclass(frozen=True, slots=True)
class Word:
    """A word, and the cosine of its token layer with the one searched."""

    word: str
    cosine: float


@dataclass(frozen=True, slots=True, eq=False)
class UsesIndex:
    """N tokens in S sentences, W different words. All vectors are less the centre of their layer.

    A search only reads, so threads may share an index.

    centre: float32 (L + 1, 2P), the mean of each layer.
    words: the words, in the order in which the text has them.
    tokens: uint32 (N,), the number of each token's word.
    starts: uint64 (S + 1,), the first token of each sentence, and N.
    vectors: float16, layer 0 of each word (W, 2P), then layers 1 to L of the tokens (N, 2P).
    lines: uint64 (S,), the line of each sentence in its text, from 1; None where unknown.
    """

    info: IndexInfo
    centre: NDArray[np.float32]
    words: Sequence[str]
    tokens: NDArray[np.uint32]
    starts: NDArray[np.uint64]
    vectors: Sequence[NDArray[np.float16]]
    lines: NDArray[np.uint64] | None = None

    def uses_of(self, word: str, offset: int, limit: int) -> tuple[int, list[Use]]:
        """Return how many uses an exact form has, and `limit` of them from number `offset` on.

        They have the order of the text. All tokens are compared: 16 ms of a core for 4 million.
        """
        number = self._number(word)
        if number is None:
            return 0, []
        found = np.flatnonzero(self.tokens == number)
        return len(found), [self.use(token) for token in found[offset : offset + limit].tolist()]

    def nearest_uses(
        self,
        layers: NDArray[np.float32],
        weights: Sequence[float],
        count: int,
        sentence: Sequence[str] = (),
    ) -> list[NearUse]:
        """Return the uses nearest to a token by the cosine of centred vectors, nearest first.

        The token has the `layers` (L + 1, 2P), and `weights` are the share of each in the vectors
        that are compared. Of uses in equal sentences only the first counts; those of `sentence`,
        that of the token, are left out.
        """
        centred = layers.astype(np.float32) - self.centre
        shares = np.asarray(weights, np.float32)
        tokens = self._candidates(centred, shares, count + len(sentence))
        cosines = _cosines(self._mixed(tokens, shares), shares @ centred)
        found: dict[tuple[tuple[str, ...], int], NearUse] = {}
        for row in np.argsort(-cosines, kind="stable"):
            use = self.use(int(tokens[row]))
            if use.sentence != tuple(sentence):
                near = NearUse(use.sentence, use.token, use.line, float(cosines[row]))
                found.setdefault((use.sentence, use.token), near)
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
        numbers = _nearest(self.vectors[0], centred, count + 1)
        cosines = _cosines(self.vectors[0][numbers].astype(np.float32), centred)
        order = np.argsort(-cosines, kind="stable")
        words = [Word(self.words[numbers[row]], float(cosines[row])) for row in order]
        return [word for word in words if word.word != exclude][:count]

    def use(self, token: int) -> Use:
        """Return the use with this number."""
        # As uint64: for an int numpy would convert all starts to float64.
        sentence = int(np.searchsorted(self.starts, np.uint64(token), side="right")) - 1
        start, end = map(int, self.starts[sentence : sentence + 2])
        words = tuple(self.words[word] for word in self.tokens[start:end])
        return Use(words, token - start, None if self.lines is None else int(self.lines[sentence]))

    def _number(self, word: str) -> int | None:
        """Return the number of a word; None for one that the text does not have."""
        for start in range(0, len(self.words), _PIECE):
            with suppress(ValueError):
                return self.words.index(word, start, start + _PIECE)
        return None

    def _candidates(
        self, centred: NDArray[np.float32], shares: NDArray[np.float32], count: int
    ) -> Ids:
        """Return the tokens whose cosines are computed: `count` or more, near in some layer."""
        used = np.flatnonzero(shares).tolist()
        most = max(count, CANDIDATES)
        found = [_nearest(self.vectors[layer], centred[layer], most) for layer in used if layer]
        if shares[0]:
            found.append(self._uses_of(_nearest(self.vectors[0], centred[0], most), most))
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)

    def _uses_of(self, words: Ids, count: int) -> Ids:
        """Return the first `count` tokens of some words: all uses of the first word come first."""
        order = np.full(len(self.words), len(words))
        order[words] = np.arange(len(words))
        order = order[self.tokens]
        tokens = np.flatnonzero(order < len(words))
        return tokens[np.argsort(order[tokens], kind="stable")][:count]

    def _mixed(self, tokens: Ids, shares: NDArray[np.float32]) -> NDArray[np.float32]:
        """Map tokens (n,) to the weighted sum of their layers (n, 2P)."""
        mixed = np.zeros((len(tokens), self.centre.shape[1]), np.float32)
        for layer in np.flatnonzero(shares).tolist():
            rows = tokens if layer else self.tokens[tokens]
            mixed += shares[layer] * self.vectors[layer][rows]
        return mixed


def _nearest(matrix: NDArray[np.float16], query: NDArray[np.float32], count: int) -> Ids:
    """Map a vector (2P,) to the numbers of the `count` nearest rows by cosine, nearest first.

    All rows are read: 18 ms for 50,000 of width 512.
    """
    # One thread: a search must not slow down the workers on the other cores.
    found = search(
        matrix,
        query.astype(np.float16),
        min(count, len(matrix)),
        MetricKind.Cos,
        exact=True,
        threads=1,
    )
    return np.asarray(found.keys, np.int64)


def _cosines(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float64]:
    """Map vectors (n, 2P) to their cosines with a vector; 0 where a vector is zero."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    cosines = (vectors @ query).astype(np.float64)
    np.divide(cosines, lengths, out=cosines, where=lengths > 0)
    return cosines.clip(-1, 1)
