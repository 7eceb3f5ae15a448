"""A fit as values: its examples, the vectors that it needs, and the messages of its process.

The server sends `Train`; the process answers with a `FitMessage` for each step and ends with
`Trained` or `NotTrained`.
"""

import pickle
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

import orjson

from elmo_model.tasks.examples import Examples, Kind, Place
from elmo_serve.workers.shared_memory import Segment
from elmo_serve.workers.slot import Started

ALL_TOKENS: Final = -2
MEAN: Final = -1
"""Rows of a sentence that a fit keeps: one for each token, or one for their mean. A number from 0
up keeps the row of that token alone."""


@dataclass(frozen=True, slots=True)
class FitLimits:
    """Largest number of examples and tokens of a fit, and of tokens of a sentence."""

    examples: int
    tokens: int
    sentence_tokens: int


@dataclass(frozen=True, slots=True)
class FitSource:
    """How to read a body: its media type, its limits, and the tokenizer that a model has."""

    is_lines: bool
    limits: FitLimits
    tokenizer: str
    language: str


@dataclass(frozen=True, slots=True)
class FitPlan:
    """The vectors that a fit needs, and its size.

    `sentences` are the JSON texts of lists of tokens, `lengths` their numbers of tokens. Of
    sentence i the rows of `row_kinds[i]` are kept: ALL_TOKENS, MEAN or the number of a token.
    `example_of[i]` is the number of its example. `examples` counts labels. `request` is the packed
    request, which the process that fits unpacks.
    """

    kind: Kind
    layer_norm: bool
    examples: int
    sentences: list[bytes]
    lengths: list[int]
    row_kinds: list[int]
    example_of: list[int]
    request: bytes = field(default=b"", repr=False, compare=False)

    @property
    def tokens(self) -> int:
        """Tokens of all sentences."""
        return sum(self.lengths)

    @property
    def row_offsets(self) -> list[int]:
        """The row of the vector file at which each sentence begins, and the number of rows."""
        return row_offsets_of(self.lengths, self.row_kinds)


@dataclass(frozen=True, slots=True)
class FitRequest:
    """A parsed body. `train` and `test` have the same sentences; `options` are a fit's."""

    kind: Kind
    options: Mapping[str, Any]
    train: Examples
    test: Examples | None
    row_kinds: list[int]
    example_of: list[int]

    def plan(self) -> FitPlan:
        """Return the vectors that the fit needs."""
        sentences = self.train.sentences
        return FitPlan(
            kind=self.kind,
            layer_norm=self.options["layer_norm"],
            examples=len(self.train) + len(self.test or ()),
            sentences=[orjson.dumps(sentence) for sentence in sentences],
            lengths=[len(sentence) for sentence in sentences],
            row_kinds=self.row_kinds,
            example_of=self.example_of,
            # Smaller than its body: a waiting job keeps it. It crosses from one process of this
            # server to another, as a message does.
            request=zlib.compress(pickle.dumps(self, pickle.HIGHEST_PROTOCOL), level=1),
        )

    @classmethod
    def unpacked(cls, data: bytes) -> "FitRequest":
        """Return the request of a plan."""
        request: FitRequest = pickle.loads(zlib.decompress(data))
        return request

    @property
    def row_offsets(self) -> list[int]:
        """The row of the vector file at which each sentence begins, and the number of rows."""
        return row_offsets_of([len(each) for each in self.train.sentences], self.row_kinds)

    def row_of(self, offsets: Sequence[int], place: Place) -> int:
        """Return the row of a place in the vector file."""
        start = offsets[place.sentence]
        if self.row_kinds[place.sentence] != ALL_TOKENS or place.token is None:
            return start
        return start + place.token


def row_offsets_of(lengths: Sequence[int], row_kinds: Sequence[int]) -> list[int]:
    """Return the first row of each sentence, and the number of all rows."""
    counts = (n if kind == ALL_TOKENS else 1 for n, kind in zip(lengths, row_kinds, strict=True))
    return [0, *accumulate(counts)]


@dataclass(frozen=True, slots=True)
class Train:
    """The task: a packed `FitRequest`, the vectors it needs, and the folder for its results.

    `vectors` holds rows of (L + 1, 2P) numbers in float32 for L layers and P numbers a direction:
    `shape` is (rows, L + 1, 2P). `model`, `revision` and `format` are those of the checkpoint.
    """

    name: str
    request: bytes
    vectors: Segment
    shape: tuple[int, int, int]
    model: str
    revision: str
    format: str
    folder: str


@dataclass(frozen=True, slots=True)
class Fits:
    """`done` of `total` fits are done: one for each mixture and seed."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Scored:
    """A mixture was fitted from all seeds. `scores` are a member of `GET /jobs/{id}`."""

    name: str
    scores: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Trained:
    """The task is learned; its head and report are in the folder.

    `scored` goes to the scores of `GET /jobs/{id}`, `fit` to the task file.
    """

    weights: tuple[float, ...]
    gamma: float
    layer_norm: bool
    scored: Mapping[str, Any]
    fit: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NotTrained:
    """Nothing can be learned; `reason` is one line."""

    reason: str


# `Started`: the process has come up.
FitMessage = Started | Fits | Scored | Trained | NotTrained
