"""Messages between the HTTP side and the replicas of an engine, on any machine of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from elmo_serve.output import Output
from elmo_serve.workers.messages import ModelInfo


@dataclass(frozen=True, slots=True)
class EmbedCall:
    """The arguments of `Engine.embed`. `timeout_seconds` counts from the arrival at the replica."""

    model: str
    sentences: Sequence[bytes]
    lengths: Sequence[int]
    output: Output
    timeout_seconds: float
    is_bulk: bool


@dataclass(frozen=True, slots=True)
class EmbedAnswer:
    """The vectors of each sentence, the tokens without a word vector, and the times of `Embedded`.

    `unknown` is empty where no word vectors are appended.
    """

    arrays: Sequence[NDArray[Any]]
    unknown: Sequence[int]
    queue_seconds: float
    infer_seconds: float


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """A device of a replica; `budget` is the largest batch in padded tokens."""

    device: str
    budget: int


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """A model as one replica serves it."""

    info: ModelInfo
    places: Sequence[ModelPlace]


@dataclass(frozen=True, slots=True)
class LoadFault:
    """A replica cannot load the model; `reason` is one line."""

    reason: str
