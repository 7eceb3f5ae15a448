"""Files of sentences: one format a file, one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from elmo_serve.files.inputs import conllu, plain, tab
from elmo_serve.files.sentence import Sentence

Read = Callable[[Iterable[str]], Iterator[Sentence]]

INPUTS: dict[str, Read] = {"plain": plain.read, "tab": tab.read, "conllu": conllu.read}
