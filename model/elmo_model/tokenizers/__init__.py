"""Tokenizers by name: text in, tokens and their offsets out.

The published English models were trained on Moses tokens, `english` on Penn Treebank tokens, SeqVec
and catELMo on single characters. Each library is imported when its tokenizer is first made.
"""

from collections.abc import Callable, Mapping

from elmo_model.tokenizers.characters import tokenize_characters
from elmo_model.tokenizers.tokenized import Tokenize, Tokenized, TokenizeError
from elmo_model.tokenizers.whitespace import tokenize_whitespace

__all__ = ["TOKENIZERS", "Tokenize", "TokenizeError", "Tokenized", "tokenizer"]


def _moses(language: str) -> Tokenize:
    from elmo_model.tokenizers.moses import MosesTokenizer  # noqa: PLC0415 - slow to import

    return MosesTokenizer(language)


def _ptb(_: str) -> Tokenize:
    from elmo_model.tokenizers.ptb import tokenize_ptb  # noqa: PLC0415 - slow to import

    return tokenize_ptb


TOKENIZERS: Mapping[str, Callable[[str], Tokenize]] = {
    "ptb": _ptb,
    "moses": _moses,
    "whitespace": lambda _: tokenize_whitespace,
    "characters": lambda _: tokenize_characters,
}
"""Makers of tokenizers by name. A maker takes a language code, which only `moses` uses."""


def tokenizer(name: str, language: str = "en") -> Tokenize:
    """Return the tokenizer of a name.

    Raises:
        TokenizeError: no tokenizer has this name.
    """
    if name not in TOKENIZERS:
        raise TokenizeError(f"tokenizer is {name!r}, expected one of {', '.join(TOKENIZERS)}")
    return TOKENIZERS[name](language)
