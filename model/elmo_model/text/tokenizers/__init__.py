"""Tokenizers by name: text in, tokens and their offsets out.

The published English models were trained on Moses tokens, `english` on Penn Treebank tokens, SeqVec
and catELMo on single characters. Each library is imported when its tokenizer is first made.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from elmo_model.errors import shown
from elmo_model.text.tokenizers.tokenized import (
    Tokenize,
    Tokenized,
    TokenizeError,
    blank_controls,
    offsets_of,
)

__all__ = [
    "RAW_FROM",
    "TOKENIZERS",
    "Tokenize",
    "TokenizeError",
    "Tokenized",
    "raw_note",
    "tokenizer",
]


_TOKEN: Final = re.compile(r"\S+")


def tokenize_whitespace(text: str) -> Tokenized:
    """Split a text that is tokenised already at white space and control characters."""
    return Tokenized.of(text, [match.span() for match in _TOKEN.finditer(blank_controls(text))])


def tokenize_characters(text: str) -> Tokenized:
    """Split a text into its code points in upper case, without white space and control characters.

    These are amino acids, as SeqVec and catELMo read them.
    """
    places = [i for i, character in enumerate(blank_controls(text)) if not character.isspace()]
    return Tokenized(tuple(text[i].upper() for i in places), tuple((i, i + 1) for i in places))


def _moses(language: str) -> Tokenize:
    from elmo_model.text.tokenizers.moses import MosesTokenizer  # noqa: PLC0415 - slow to import

    return MosesTokenizer(language)


def _ptb(_: str) -> Tokenize:
    from nltk.tokenize.destructive import NLTKWordTokenizer  # noqa: PLC0415 - slow to import

    treebank = NLTKWordTokenizer()

    def tokenize(text: str) -> Tokenized:
        # NLTK knows contractions with the ASCII apostrophe alone. Tokens keep the characters of the
        # text, double quotes included.
        readable = blank_controls(text).replace("\u2019", "'")
        return Tokenized.of(text, offsets_of(readable, treebank.tokenize(readable)))

    return tokenize


TOKENIZERS: Mapping[str, Callable[[str], Tokenize]] = {
    "ptb": _ptb,
    "moses": _moses,
    "whitespace": lambda _: tokenize_whitespace,
    "characters": lambda _: tokenize_characters,
}
"""Makers of tokenizers by name. A maker takes a language code, which only `moses` uses."""


def tokenizer(name: str, language: str = "en") -> Tokenize:
    """Return the tokenizer of a name. Raises TokenizeError for an unknown one."""
    if name not in TOKENIZERS:
        raise TokenizeError(f"tokenizer is {name!r}, expected one of {', '.join(TOKENIZERS)}")
    return TOKENIZERS[name](language)


RAW_FROM: Final = 100
"""Sentences that tell whether a text is tokenised."""

_RAW_END: Final = re.compile(r"\w[.!?][\"')\]”’»]*$")


def raw_note(sentences: Iterable[Sequence[str]], remedy: str) -> str | None:
    """Return a note with a `remedy` where most sentences end in a token such as `river.`.

    It reads the first `RAW_FROM` of them. A tokenizer makes the full stop at the end a token.
    """
    ends = [tokens[-1] for tokens in islice(sentences, RAW_FROM) if len(tokens) > 1]
    raw = [end for end in ends if _RAW_END.search(end)]
    if 2 * len(raw) <= len(ends):
        return None
    return f"lines end in tokens such as {shown(raw[0])}; if they are not tokenised, {remedy}"
