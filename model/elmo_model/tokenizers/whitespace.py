"""Text that is tokenised already: tokens are separated by Unicode white space."""

import re

from elmo_model.tokenizers.alignment import blank_controls
from elmo_model.tokenizers.tokenized import Tokenized

_TOKEN = re.compile(r"\S+")


def tokenize_whitespace(text: str) -> Tokenized:
    """Split a text at white space and control characters."""
    return Tokenized.of(text, [match.span() for match in _TOKEN.finditer(blank_controls(text))])
