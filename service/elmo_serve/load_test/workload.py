"""The requests of a load test: sentences with real words, and bodies with a number of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from elmo_model import centre
from elmo_model.text_files import TextError, numbered_lines

MEDIAN_TOKENS = 20
"""Median of the lengths of made sentences, in tokens, without boundaries."""

SPREAD = 0.6
"""Standard deviation of the logarithm of the length: 5 % of the sentences are longer than 53."""

LONGEST = 120
"""Longest made sentence, in tokens."""

Sentence = list[str]


class WorkloadError(Exception):
    """No requests can be made. The text has the reason."""


@dataclass(frozen=True, slots=True)
class Body:
    """A request: its JSON, the sentences in it, and the number of their tokens."""

    content: bytes
    sentences: tuple[Sentence, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class RequestSize:
    """The size of a request: a number of sentences, or a number of tokens if it is not None."""

    sentences: int = 8
    tokens: int | None = None

    def __str__(self) -> str:
        """Return the size in words."""
        count, noun = (
            (self.sentences, "sentence") if self.tokens is None else (self.tokens, "token")
        )
        return f"{count:,} {noun}{'s' * (count != 1)}"


def made_sentences(source: random.Random, longest: int) -> Callable[[], Sentence]:
    """Return a function that makes a sentence, of at most `longest` tokens.

    The length is log-normal: median 20, sigma 0.6, cut at 120; the mean is 24. The words are those
    of the text that comes with the program, in its frequencies, so a server knows all of them soon.
    """
    words = [word for sentence in centre.sentences() for word in sentence]
    longest = min(LONGEST, longest)

    def make() -> Sentence:
        length = round(MEDIAN_TOKENS * source.lognormvariate(0.0, SPREAD))
        return source.choices(words, k=min(max(length, 1), longest))

    return make


def sentences_of(text: Path, longest: int) -> Callable[[], Sentence]:
    """Return a function that returns the next sentence of a text: a line of tokens between spaces.

    It starts again after the last one. Longer sentences are cut after `longest` tokens.
    Raises WorkloadError where the text cannot be read or holds no token.
    """
    try:
        lines = [line for _, _, line in numbered_lines(text)]
    except TextError as error:
        raise WorkloadError(str(error)) from error
    sentences = [words[:longest] for line in lines if (words := line.split())]
    if not sentences:
        raise WorkloadError(f"{text}: holds no token")

    def endless() -> Iterator[Sentence]:
        while True:
            yield from sentences

    return endless().__next__


def make_bodies(
    count: int,
    size: RequestSize,
    next_sentence: Callable[[], Sentence],
    options: dict[str, Any],
) -> list[Body]:
    """Return `count` requests of a size; `options` are the other fields of their JSON.

    The last sentence of a request of N tokens is cut, so that it has N.
    """
    bodies = []
    for _ in range(count):
        sentences = _sentences(size, next_sentence)
        content = orjson.dumps({"sentences": sentences, **options})
        bodies.append(Body(content, sentences, sum(map(len, sentences))))
    return bodies


def _sentences(size: RequestSize, next_sentence: Callable[[], Sentence]) -> tuple[Sentence, ...]:
    if size.tokens is None:
        return tuple(next_sentence() for _ in range(size.sentences))
    found, left = [], size.tokens
    while left:
        found.append(next_sentence()[:left])
        left -= len(found[-1])
    return tuple(found)


def mean_tokens(bodies: Sequence[Body]) -> float:
    """Return the mean number of tokens of some requests."""
    return sum(body.tokens for body in bodies) / len(bodies)
