"""Words of an indexed text whose uses differ most: examples for a page."""

from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elmo_model.uses.index import Example, UsesIndex

_EXAMPLES: Final = 4

_SKIPPED: Final = 100
"""The most frequent forms, which are left out: they are function words."""

_FORMS: Final = 500
"""Forms that are looked at. More of them are rarer, and take longer."""

_USES: Final = 8
"""First uses of a form that are compared; a form with fewer is left out."""

_SENTENCES: Final = 4
_TOKENS: Final = range(5, 26)
"""Lengths of sentences in tokens: a page shows all of them at once."""


def examples_of(index: UsesIndex) -> tuple[Example, ...]:
    """Return up to four words whose uses differ most, each with four sentences of the text.

    The words have letters alone, and the lowest mean cosine between the top vectors of their first
    uses.
    """
    counts = np.bincount(index.tokens, minlength=len(index.words))
    frequent = np.argsort(-counts, kind="stable")[_SKIPPED : _SKIPPED + _FORMS]
    words = [word for word in frequent.tolist() if index.words[word].isalpha()]
    likeness = {}
    for word in words:
        uses = np.flatnonzero(index.tokens == word)[:_USES]
        if len(uses) == _USES:
            likeness[word] = _mean_cosine(index.vectors[-1][uses].astype(np.float32))
    found = (_example(index, word) for word in sorted(likeness, key=likeness.__getitem__))
    return tuple(islice((each for each in found if len(each.sentences) == _SENTENCES), _EXAMPLES))


def _mean_cosine(vectors: NDArray[np.float32]) -> float:
    """Return the mean cosine of all pairs of vectors (n, 2P)."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    cosines = unit @ unit.T
    return float(cosines[np.triu_indices(len(unit), 1)].mean())


def _example(index: UsesIndex, word: int) -> Example:
    """Return a word with its first sentences that are neither long nor short."""
    uses = (index.use(token) for token in np.flatnonzero(index.tokens == word).tolist())
    fitting = (" ".join(use.sentence) for use in uses if len(use.sentence) in _TOKENS)
    sentences: dict[str, None] = {}
    for sentence in fitting:
        sentences[sentence] = None
        if len(sentences) == _SENTENCES:
            break
    return Example(index.words[word], tuple(sentences))
