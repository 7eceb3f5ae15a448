"""One part of an index: some sentences, their tokens, and a vector of each token in every layer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elmo_model.neighbours.postings import Postings
from elmo_model.neighbours.search import Numbers, Search
from elmo_model.neighbours.word_list import WordList

AVERAGE: Final = "average"
"""The name of the search by the mean of all layers; that of layer 1 is called "1"."""


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
    searches: Mapping[str, Search]

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

    def layer(self, number: int, tokens: Numbers) -> NDArray[np.float32]:
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
