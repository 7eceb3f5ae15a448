"""One part of an index: some sentences, their tokens, and a vector of each token in every layer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from elmo_model.files.arrays import WordList
from elmo_model.neighbours.search import FlatSearch, Ids

MAX_WORDS: Final = 100_000
"""Words that are searched by their token layer: of a million tokens these are all. More words take
more memory and a longer search; rarer words are misspellings and names."""

AVERAGE: Final = "average"
"""The name of the search by the mean of all layers; that of layer 1 is called "1"."""


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """The tokens of W different words, N in all.

    words: uint32 (W,), the numbers of the words, which ascend.
    starts: uint32 (W + 1,), where the tokens of each word start in `tokens`, and N.
    tokens: uint32 (N,), the tokens of the first word, then those of the second one; each ascend.
    """

    words: NDArray[np.uint32]
    starts: NDArray[np.uint32]
    tokens: NDArray[np.uint32]

    @classmethod
    def of(cls, token_words: NDArray[np.uint32]) -> Self:
        """Return the postings of tokens, given the number of each one's word, (N,)."""
        words, counts = np.unique(token_words, return_counts=True)
        tokens = np.argsort(token_words, kind="stable")
        starts = np.concatenate([[0], np.cumsum(counts)])
        return cls(words, starts.astype(np.uint32), tokens.astype(np.uint32))

    def ranges(self, words: Ids) -> tuple[Ids, Ids]:
        """Return where the tokens of words (n,) start and end in `tokens`, (n,) each.

        A word that is not there has an empty range.
        """
        rows = np.searchsorted(self.words, words.astype(np.uint32))
        is_there = rows < len(self.words)
        is_there[is_there] = self.words[rows[is_there]] == words[is_there]
        rows = np.where(is_there, rows, 0)
        starts, ends = self.starts[rows], self.starts[rows + is_there]
        return starts.astype(np.int64), ends.astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """S sentences of N tokens in all. All vectors are less the centre of their layer.

    Layer 0 sees no context, so it is kept once for each word: a word gets the next number where
    the text has it first. `words` and `word_vectors` (W, 2P) are those that this part has first,
    the first of which has the number `first_word`.

    token_words: uint32 (N,), the number of each token's word.
    postings: the tokens that are each word.
    sentence_starts: uint64 (S + 1,), the first token of each sentence, and N.
    layers: float16 (N, 2P), the vectors of the tokens in layers 1 to L.
    searches: a search among the tokens by each of these layers, by name, and by `AVERAGE`.
    """

    first_word: int
    words: WordList
    word_vectors: NDArray[np.float16]
    token_words: NDArray[np.uint32]
    postings: Postings
    sentence_starts: NDArray[np.uint64]
    layers: Sequence[NDArray[np.float16]]
    searches: Mapping[str, FlatSearch]

    @property
    def tokens(self) -> int:
        """N."""
        return len(self.token_words)

    @property
    def sentences(self) -> int:
        """S."""
        return len(self.sentence_starts) - 1

    def place(self, token: int) -> tuple[int, int]:
        """Return the range of tokens of the sentence that a token is in."""
        sentence = int(np.searchsorted(self.sentence_starts, token, side="right")) - 1
        return int(self.sentence_starts[sentence]), int(self.sentence_starts[sentence + 1])

    def layer(self, number: int, tokens: Ids) -> NDArray[np.float32]:
        """Map tokens (n,) to their vectors (n, 2P) in a layer above 0."""
        return self.layers[number - 1][tokens].astype(np.float32)


def word_numbers(
    sentences: Iterable[Sequence[str]], known: Mapping[str, int]
) -> tuple[NDArray[np.uint32], list[str]]:
    """Return the number of each token's word, and the words that are not known yet.

    New words have the numbers after those of `known`.
    """
    new: dict[str, int] = {}
    first = len(known)
    numbers = [
        known[token] if token in known else new.setdefault(token, first + len(new))
        for sentence in sentences
        for token in sentence
    ]
    return np.array(numbers, np.uint32), list(new)


def most_frequent(parts: Sequence[Part], count: int = MAX_WORDS) -> NDArray[np.uint32]:
    """Return the numbers of the most frequent words, the most frequent first, ties by number."""
    words = sum(len(part.words) for part in parts)
    counts = np.zeros(words, np.int64)
    for part in parts:
        counts += np.bincount(part.token_words, minlength=words)
    return np.argsort(-counts, kind="stable")[:count].astype(np.uint32)


def word_matrix(parts: Sequence[Part], numbers: NDArray[np.uint32] | Ids) -> NDArray[np.float16]:
    """Map word numbers (n,) to their token layers (n, 2P)."""
    found = np.empty((len(numbers), parts[0].word_vectors.shape[1]), np.float16)
    first_words = [part.first_word for part in parts]
    owners = np.searchsorted(first_words, numbers, side="right") - 1
    for owner in np.unique(owners):
        rows, part = np.flatnonzero(owners == owner), parts[owner]
        found[rows] = part.word_vectors[numbers[rows] - part.first_word]
    return found
