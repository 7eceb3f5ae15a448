"""The sentences that the estimators take: lists of tokens, or texts."""

from collections.abc import Sequence
from typing import Any

from elmo_model.tokenizers import Tokenize


def tokens_of(sentences: Any, split: Tokenize) -> list[list[str]]:
    """Return a list of tokens for each sentence; `split` splits a text.

    Raises ValueError for one text in place of several, and for a sentence of another type.
    """
    if isinstance(sentences, str):
        raise ValueError("sentences is one text, expected a list of texts or of lists of tokens")
    return [_tokens(sentence, split, number) for number, sentence in enumerate(sentences)]


def _tokens(sentence: Any, split: Tokenize, number: int) -> list[str]:
    if isinstance(sentence, str):
        return list(split(sentence).tokens)
    if isinstance(sentence, Sequence) or hasattr(sentence, "tolist"):
        tokens = list(sentence)
        if all(isinstance(token, str) for token in tokens):
            return [str(token) for token in tokens]
    raise ValueError(f"sentence {number} is {sentence!r:.60}, expected a text or a list of tokens")
