"""The tokenizer of Moses, which made the training text of the published English models."""

import sacremoses

from elmo_model.tokenizers.alignment import blank_controls, offsets_of
from elmo_model.tokenizers.tokenized import Tokenized


class MosesTokenizer:
    """Moses' rules for a language, by sacremoses, without escapes for HTML.

    A language that Moses does not know gets the abbreviations of English; every apostrophe is split
    off.
    """

    def __init__(self, language: str = "en") -> None:
        self._moses = sacremoses.MosesTokenizer(language)

    def __call__(self, text: str) -> Tokenized:
        """Tokenise a text. Raises TokenizeError where Moses changes a character of it."""
        readable = blank_controls(text)
        tokens = self._moses.tokenize(readable, escape=False)
        return Tokenized.of(text, offsets_of(readable, tokens))
