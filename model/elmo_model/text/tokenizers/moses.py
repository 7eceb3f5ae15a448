"""The tokenizer of Moses, which made the training text of the published English models."""

from typing import Final

import sacremoses
from sacremoses.corpus import NonbreakingPrefixes

from elmo_model.text.tokenizers.tokenized import Tokenized, blank_controls, offsets_of

LANGUAGES: Final = frozenset(NonbreakingPrefixes().available_langs.values())
"""The codes of the languages whose abbreviations Moses knows."""


class MosesTokenizer:
    """Moses' rules for a language, by sacremoses, without escapes for HTML.

    A language that Moses does not know gets the abbreviations of English; every apostrophe is split
    off.
    """

    def __init__(self, language: str = "en") -> None:
        self._moses = _FastMoses(language)

    def __call__(self, text: str) -> Tokenized:
        """Tokenise a text. Raises TokenizeError where Moses changes a character of it."""
        readable = blank_controls(text)
        tokens = self._moses.tokenize(readable, escape=False)
        return Tokenized.of(text, offsets_of(readable, tokens))


class _FastMoses(sacremoses.MosesTokenizer):  # type: ignore[misc]  # it has no types
    """sacremoses with its two sets of characters made once.

    The library makes a set of all letters for each word with a full stop: 0.6 ms for `U.S.`, which
    is 8 s for a text of 64,000 characters.
    """

    def __init__(self, language: str) -> None:
        super().__init__(language)
        self._lower, self._alpha = frozenset(self.IsLower), frozenset(self.IsAlpha)

    def islower(self, text: str) -> bool:
        """Tell whether every character is a small letter."""
        return self._lower.issuperset(text)

    def isanyalpha(self, text: str) -> bool:
        """Tell whether a character is a letter."""
        return not self._alpha.isdisjoint(text)
