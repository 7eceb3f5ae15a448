"""One token a character, in upper case: amino acids, as SeqVec and catELMo read them."""

from elmo_model.tokenizers.alignment import blank_controls
from elmo_model.tokenizers.tokenized import Tokenized


def tokenize_characters(text: str) -> Tokenized:
    """Split a text into its code points in upper case; skip white space and control characters."""
    places = [i for i, character in enumerate(blank_controls(text)) if not character.isspace()]
    return Tokenized(tuple(text[i].upper() for i in places), tuple((i, i + 1) for i in places))
