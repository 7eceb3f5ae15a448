"""The text that comes with the program to look for uses in, where no index is set.

`uses.md` in this folder states its sources and licences.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

NAME: Final = "uses"
"""The name of the text: every model has the same one, in whatever language it was trained."""

_FILE: Final = Path(__file__).with_name("uses.tsv")


@cache
def sentences() -> tuple[tuple[str, ...], ...]:
    """Return the sentences of the text, which is tokenised as the Penn Treebank is."""
    lines = _FILE.read_text(encoding="utf-8").split("\n")[:-1]
    return tuple(tuple(line.split("\t")[1].split(" ")) for line in lines)


@cache
def digest() -> str:
    """Return the short SHA-256 of the text, by which a stored index of it is found."""
    return hashlib.sha256(_FILE.read_bytes()).hexdigest()[:12]
