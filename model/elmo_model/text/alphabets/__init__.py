"""Alphabets: words to character ids or word ids. One module per alphabet, one table."""

from collections.abc import Mapping
from typing import Any

from elmo_model.errors import shown
from elmo_model.text.alphabets.alphabet import Alphabet, AlphabetError, WordAlphabet
from elmo_model.text.alphabets.lexicon import Lexicon
from elmo_model.text.alphabets.utf8 import Utf8Alphabet
from elmo_model.text.alphabets.vocabulary import WordVocabulary
from elmo_model.validation import validated

ALPHABETS: dict[str, type[Utf8Alphabet] | type[Lexicon] | type[WordVocabulary]] = {
    Utf8Alphabet.kind: Utf8Alphabet,
    Lexicon.kind: Lexicon,
    WordVocabulary.kind: WordVocabulary,
}


def from_dict(values: Mapping[str, Any]) -> Alphabet:
    """Return the alphabet that `to_dict` described. Raises AlphabetError for other values."""
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in ALPHABETS:
        raise AlphabetError(f"alphabet kind is {shown(kind)}, expected {' or '.join(ALPHABETS)}")
    rest = {key: value for key, value in values.items() if key != "kind"}
    try:
        return validated(ALPHABETS[kind], rest, "alphabet")
    except ValueError as error:
        raise AlphabetError(str(error)) from None


__all__ = [
    "ALPHABETS",
    "Alphabet",
    "AlphabetError",
    "Lexicon",
    "Utf8Alphabet",
    "WordAlphabet",
    "WordVocabulary",
    "from_dict",
]
