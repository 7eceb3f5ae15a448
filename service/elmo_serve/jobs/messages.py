"""Messages between the server and the process of a fit: plain values.

The server sends `Train`; the process answers with a `FitMessage` for each step and ends with
`Trained` or `NotTrained`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from elmo_serve.workers.shared_memory import Segment
from elmo_serve.workers.slot import Started


@dataclass(frozen=True, slots=True)
class Train:
    """The task: a packed `plan.FitRequest`, the vectors it needs, and the folder for its results.

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


# `Started`: the process has come up.
FitMessage = Started | Fits | Scored | Trained | NotTrained
