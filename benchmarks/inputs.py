"""Inputs of the programs that time the network: a model, and batches of real sentences."""

import argparse
import math
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.checkpoints import original_size_pair

Sentence = list[str]


@dataclass(frozen=True, slots=True)
class Batches:
    """Batches of a text in order of length; each has sentences that are neighbours in the text."""

    rows: int
    batches: tuple[list[Sentence], ...]
    familiar: tuple[str, ...]
    """The words of the batches that the rest of the text has too."""
    rest: tuple[list[Sentence], ...]
    """Batches of other sentences of the text, in any order: the latest batches of a long job."""

    @property
    def words(self) -> list[str]:
        """All words, with repetitions."""
        return [word for batch in self.batches for sentence in batch for word in sentence]

    @property
    def tokens(self) -> int:
        """Number of words."""
        return len(self.words)


def add_arguments(parser: argparse.ArgumentParser, *, tokens: int, rounds: int) -> None:
    """Add the options of all programs that time the network."""
    parser.add_argument("text", type=Path, help="one tokenised sentence a line")
    parser.add_argument("--checkpoint", type=Path, help="default: random, of the original's size")
    parser.add_argument("--tokens", type=int, default=tokens, help="least number to time at once")
    parser.add_argument("--rounds", type=int, default=rounds, help="the table has their median")


@contextmanager
def checkpoint(given: Path | None) -> Iterator[Path]:
    """Yield the given path, or that of a temporary random checkpoint of the original size."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        yield original_size_pair(Path(folder, "original-size-random"))


def read(text: Path) -> list[Sentence]:
    """Return the sentences of a text, shortest first."""
    lines = text.read_text(encoding="utf-8").splitlines()
    return sorted((line.split() for line in lines if line.strip()), key=len)


def batches(ascending: Sequence[Sentence], rows: int, tokens: int, least: int = 4) -> Batches:
    """Cut sentences in order of length into batches and take some, evenly over all lengths.

    Takes batches of about `tokens` tokens in all, and at least `least` batches. They are batches of
    the whole text, so their sentences are as close in length as in a job over all of it.
    """
    there = max(1, len(ascending) // rows)
    mean = sum(map(len, ascending)) / len(ascending)
    wanted = min(there, max(least, math.ceil(tokens / mean / rows)))
    starts = [rows * int((place + 0.5) * there / wanted) for place in range(wanted)]
    taken = tuple(list(ascending[start : start + rows]) for start in starts)
    everywhere = Counter(word for sentence in ascending for word in sentence)
    here = Counter(word for batch in taken for sentence in batch for word in sentence)
    familiar = tuple(word for word, count in here.items() if count < everywhere[word])
    others = [start for start in range(0, there * rows, rows) if start not in starts]
    random.Random(6).shuffle(others)
    rest = tuple(list(ascending[start : start + rows]) for start in others)
    return Batches(rows, taken, familiar, rest)
