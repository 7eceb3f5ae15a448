"""What every output format is given, and what it says of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from elmo_serve.files.sentence import Sentence
from elmo_serve.output import Output
from elmo_serve.workers.messages import ModelInfo

Items = Iterable[tuple[Sentence, NDArray[Any]]]
Check = Callable[[int, Sentence], None]


@dataclass(frozen=True, slots=True)
class Facts:
    """What describes all vectors of a file."""

    model: ModelInfo
    output: Output


def anything(_number: int, _sentence: Sentence) -> None:
    """Take every sentence."""


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """`write` makes a file of sentences and their vectors, in order.

    It raises OSError where the disk is full. `check` returns a function that is shown every
    sentence beforehand and raises FileError for one that such a file cannot hold; `require` raises
    FileError where something that the format needs is not installed.
    """

    write: Callable[[Path, Items, Facts], None]
    check: Callable[[], Check] = lambda: anything
    require: Callable[[], None] = lambda: None
