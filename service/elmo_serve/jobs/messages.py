"""Messages between the server and the process of a fit: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from elmo_serve.workers.shared_memory import Segment
from elmo_serve.workers.slot import Started


@dataclass(frozen=True, slots=True)
class Train:
    """The task: a packed `plan.FitRequest`, the vectors it needs, and the folder for its results.

    `vectors` holds rows of (L + 1, 2P) numbers in float32: `shape` is (rows, L + 1, 2P). `model`
    and `revision` are those of the vectors.
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
    """A mixture was fitted from all seeds. `scores` has the members of the response."""

    name: str
    scores: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Trained:
    """The task is learned; its head and report are in the folder. `fit` goes to the task file."""

    weights: tuple[float, ...]
    gamma: float
    layer_norm: bool
    scored_on: str
    measure: str
    fit: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NotTrained:
    """Nothing can be learned; `reason` is one line."""

    reason: str


FitMessage = Started | Fits | Scored | Trained | NotTrained
