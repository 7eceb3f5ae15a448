"""The tokens of the Penn Treebank, such as `do n't`: the training text of `english`."""

from nltk.tokenize.destructive import NLTKWordTokenizer

from elmo_model.text.tokenizers.tokenized import Tokenized, blank_controls, offsets_of

_TREEBANK = NLTKWordTokenizer()
_APOSTROPHE = str.maketrans("\u2019", "'")


def tokenize_ptb(text: str) -> Tokenized:
    """Tokenise a text by the rules of the Penn Treebank.

    U+2019 counts as an apostrophe for the splitting alone: NLTK knows contractions with the ASCII
    character only. Tokens keep the characters of the text, double quotes included. Raises
    TokenizeError where NLTK changes another character.
    """
    readable = blank_controls(text).translate(_APOSTROPHE)
    return Tokenized.of(text, offsets_of(readable, _TREEBANK.tokenize(readable)))
