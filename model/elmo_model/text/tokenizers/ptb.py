"""The tokens of the Penn Treebank, such as `do n't`: the training text of `english`."""

import re
from functools import cache

from nltk.tokenize.destructive import NLTKWordTokenizer

from elmo_model.text.tokenizers.tokenized import Tokenized, blank_controls, offsets_of

Offsets = list[tuple[int, int]]

_TREEBANK = NLTKWordTokenizer()
_APOSTROPHE = str.maketrans("\u2019", "'")

_PLAIN = re.compile(r"\w+")
_CONTRACTED = re.compile("(?i)cannot|gimme|gonna|gotta|lemme|wanna")
"""Words without punctuation that the rules split, with `re`'s idea of case, as in the rules."""

_OTHER_SPACE = re.compile(r"[^\S ]")

KEPT_WORDS = 1 << 16
"""Words and ends of texts whose tokens are kept, about 15 MB. Fewer save memory; the rules take 60
to 200 us for a text, words that are kept take 0.5 us each."""

_LONGEST_KEPT = 64


def tokenize_ptb(text: str) -> Tokenized:
    """Tokenise a text by the rules of the Penn Treebank.

    U+2019 counts as an apostrophe for the splitting alone: NLTK knows contractions with the ASCII
    character only. Tokens keep the characters of the text, double quotes included. Raises
    TokenizeError where NLTK changes another character.
    """
    readable = blank_controls(text).translate(_APOSTROPHE)
    offsets = _from_kept(readable)
    if offsets is None:
        offsets = _by_rules(readable)
        _keep(readable, offsets)
    return Tokenized.of(text, offsets)


def kept_words() -> int:
    """Return the number of words and ends of texts whose tokens are kept."""
    return len(_between) + len(_at_end)


def _by_rules(text: str) -> Offsets:
    return offsets_of(text, _TREEBANK.tokenize(text))


_between: dict[str, Offsets] = {}
"""The tokens of a word that stands between plain words, relative to its start."""

_at_end: dict[str, Offsets] = {}
"""The tokens of the part of a text that follows its last plain word, relative to its start."""


def _from_kept(text: str) -> Offsets | None:
    """Return the offsets of a text all of whose words are plain or kept; else None.

    NLTK's rules look across a space in two places alone: for marks at the start of a text, and for
    a full stop that only closing marks follow. A plain word stops both.
    """
    parts = _parts(text)
    if parts is None:
        return None
    words, last = parts
    offsets: Offsets = []
    position = 0
    for word in words[: last + 1]:
        kept = _between.get(word)
        if kept is None:
            if not _is_plain(word):
                return None
            kept = _whole(len(word))
        for start, stop in kept:
            offsets.append((position + start, position + stop))
        position += len(word) + 1
    if last + 1 < len(words):
        kept = _at_end.get(text[position:])
        if kept is None:
            return None
        offsets += [(position + start, position + stop) for start, stop in kept]
    return offsets


def _keep(text: str, offsets: Offsets) -> None:
    """Keep the tokens of the words of a text and of its end, for `_from_kept`."""
    parts = _parts(text)
    if parts is None:
        return
    if kept_words() > KEPT_WORDS:
        _between.clear()
        _at_end.clear()
    words, last = parts
    ahead = iter([*offsets, (len(text), len(text))])
    start, stop = next(ahead)
    position = 0
    pieces = [(_between, word) for word in words[: last + 1]]
    if last + 1 < len(words):
        rest = text[sum(map(len, words[: last + 1])) + last + 1 :]
        pieces.append((_at_end, rest))
    for kept, piece in pieces:
        spans: Offsets = []
        while stop <= position + len(piece) and start < len(text):
            spans.append((start - position, stop - position))
            start, stop = next(ahead)
        if len(piece) <= _LONGEST_KEPT:
            kept[piece] = _whole(len(piece)) if spans == [(0, len(piece))] else spans
        position += len(piece) + 1


@cache
def _whole(length: int) -> Offsets:
    """Return the offsets of a word that is one token, one object for all of its length."""
    return [(0, length)]


def _parts(text: str) -> tuple[list[str], int] | None:
    """Return the words of a text and the number of its last plain one.

    None where the text does not begin with a plain word, or has other white space than spaces.
    """
    words = text.split(" ")
    if not _is_plain(words[0]) or _OTHER_SPACE.search(text):
        return None
    return words, next(i for i in range(len(words) - 1, -1, -1) if _is_plain(words[i]))


def _is_plain(word: str) -> bool:
    """Tell whether a word is one token wherever it stands."""
    return _PLAIN.fullmatch(word) is not None and _CONTRACTED.fullmatch(word) is None
