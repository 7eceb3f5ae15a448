"""The text of an index: a user's file, and the text that comes with the program.

`uses.md` in this folder states the sources and licences of the latter.
"""

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from elmo_model.errors import ElmoError
from elmo_model.text.lines import TextError, numbered_lines
from elmo_model.text.tokenizers import Tokenize, TokenizeError

MAX_SENTENCE_TOKENS: Final = 1_000
"""Longest sentence in tokens: that of the server's default. A longer one takes more memory."""

MAX_TOKENS: Final = 1 << 22
"""Most tokens of an index. With more, the search of all of them takes many seconds."""

BUILT_IN: Final = "uses"
"""The name of the text that comes with the program, which every model shares."""

_BUILT_IN_FILE: Final = Path(__file__).with_name("uses.tsv")

Sentences = Sequence[Sequence[str]]


class IndexFolderError(ElmoError):
    """A folder is no index, or the index does not fit; the message is one line that names it."""


def read_sentences(path: Path, split: Tokenize) -> tuple[list[list[str]], list[int]]:
    """Return the sentences of a text, one a line, and the number of each line, from 1.

    Blank and repeated lines are left out: a line that occurs a thousand times, such as a page
    header, would fill the results.

    Raises TextError, which names the line, and IndexFolderError for a text that is too long or has
    no token.
    """
    sentences: list[list[str]] = []
    lines: list[int] = []
    seen: set[bytes] = set()
    tokens = 0
    for number, _, text in numbered_lines(path):
        key = hashlib.blake2b(" ".join(text.split()).encode(), digest_size=12).digest()
        if key in seen:
            continue
        seen.add(key)
        if words := _words(split, text, f"{path}:{number}"):
            sentences.append(words)
            lines.append(number)
            tokens += len(words)
        if tokens > MAX_TOKENS:
            raise IndexFolderError(
                f"{path}: has more than {MAX_TOKENS:,} tokens; for a database of vectors there is "
                "`elmo embed --format parquet`"
            )
    if not tokens:
        raise IndexFolderError(f"{path}: has no token")
    return sentences, lines


def _words(split: Tokenize, text: str, place: str) -> list[str]:
    try:
        words = list(split(text).tokens)
    except TokenizeError as error:
        raise TextError(f"{place}: {error}") from error
    if len(words) > MAX_SENTENCE_TOKENS:
        raise TextError(
            f"{place}: has {len(words):,} tokens, expected at most {MAX_SENTENCE_TOKENS:,}: one "
            "sentence a line"
        )
    return words


@cache
def built_in_sentences() -> tuple[tuple[str, ...], ...]:
    """Return the sentences of the built-in text, which is tokenised as the Penn Treebank is."""
    lines = _BUILT_IN_FILE.read_text(encoding="utf-8").split("\n")[:-1]
    return tuple(tuple(line.split("\t")[1].split(" ")) for line in lines)
