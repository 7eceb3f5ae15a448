"""Alphabets: words to rows of character ids. One file each, one table."""

from collections.abc import Mapping
from typing import Any

from model.alphabets.alphabet import Alphabet, AlphabetError
from model.alphabets.utf8 import Utf8Alphabet

ALPHABETS: dict[str, type[Utf8Alphabet]] = {Utf8Alphabet.kind: Utf8Alphabet}


def from_dict(values: Mapping[str, Any]) -> Alphabet:
    """Read what an alphabet's `to_dict` wrote. Raises AlphabetError for anything else."""
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in ALPHABETS:
        raise AlphabetError(f"alphabet kind is {kind!r:.80}, expected {' or '.join(ALPHABETS)}")
    return ALPHABETS[kind].from_dict(values)


__all__ = ["ALPHABETS", "Alphabet", "AlphabetError", "Utf8Alphabet", "from_dict"]
