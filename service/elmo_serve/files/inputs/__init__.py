"""Formats of input files, one module each, and the table of them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from elmo_serve.files.inputs import conllu, plain, split, tab
from elmo_serve.files.sentence import Sentence


@dataclass(frozen=True, slots=True)
class InputFormat:
    """`read` maps the lines of a file to its sentences; `unit` names a sentence in messages."""

    read: Callable[[Iterable[str]], Iterator[Sentence]]
    unit: str


INPUTS = {
    "plain": InputFormat(plain.read, "line"),
    "tab": InputFormat(tab.read, "line"),
    "conllu": InputFormat(conllu.read, "sentence"),
}

SPLIT = InputFormat(split.read, "line")
"""Text that a tokenizer has split, in the temporary file of a run."""
