"""Messages between the server and a model worker: plain values.

Every kind of work is a dataclass of its own, and a worker handles it by its class. There is one,
`Batch`: vectors and the results of the language model differ in their outputs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from elmo_model.network.description import Centre, Trained
from elmo_serve.processes.arena import Block
from elmo_serve.workers.language_results import Wanted


@dataclass(frozen=True, slots=True)
class SoftmaxInfo:
    """The words that a language model predicts: `words` are used of the `total` it was trained on.

    A word that is not among them is `<UNK>`.
    """

    words: int
    total: int


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The description of a model, read from its checkpoint by a worker.

    `dimension` is the width of a vector. `tokenizer` and `language` are those of the training text.
    The server's own process never opens a checkpoint. `precision` is the one that it is computed
    in, `kernel` are the products of its time steps in words. `centre` has the mean of each layer.
    `softmax` are the words that the model predicts; None where it has none. `trained` is its
    training, None where the checkpoint does not state it.
    """

    name: str
    revision: str
    format: str
    layers: int
    dimension: int
    parameters: int
    precision: str
    kernel: str = ""
    tokenizer: str = "moses"
    language: str = "en"
    centre: Centre | None = field(default=None, repr=False, compare=False)
    softmax: SoftmaxInfo | None = None
    trained: Trained | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Sentences to compute together; result i is written to `block` at byte `offsets[i]`.

    A sentence is the JSON text of its list of tokens; only the worker parses it. `tokens` and
    `padded_tokens` count the boundaries. In a worker's process `block` arrives as a `BlockName`. A
    batch that `is_urgent` interrupts the one that the worker computes.
    """

    id: int
    sentences: tuple[bytes, ...]
    outputs: tuple[Wanted, ...]
    offsets: tuple[int, ...]
    tokens: int
    padded_tokens: int
    block: Block
    is_urgent: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """Nobody waits for these sentences of a batch any more, by their numbers in it."""

    batch: int
    sentences: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The measurements of a warm-up; 0 where nothing was measured.

    `tokens` are those of the largest batch that the device has memory for, padding included.
    `seconds_per_token` was measured with such a batch, its words in the cache.
    """

    tokens: int = 0
    seconds_per_token: float = 0.0


@dataclass(frozen=True, slots=True)
class Ready:
    """The model is loaded, warmed up and has passed its self-test.

    `trials` are those of `elmo_model.inference.row_buckets`, for the next worker on the machine.
    """

    info: ModelInfo
    warm_up: WarmUp = WarmUp()
    trials: Mapping[Hashable, tuple[int, ...]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """The model cannot be served by this worker, which ends; `reason` is one line."""

    reason: str


@dataclass(frozen=True, slots=True)
class Done:
    """The vectors of a batch are in its block, except for the sentences in `not_finite`.

    The hits and misses of the cache are those since the last batch that was done.
    """

    batch: int
    cache_hits: int
    cache_misses: int
    not_finite: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """A batch raised an exception. `memory` tells that the device had no memory left for it."""

    batch: int
    memory: bool
    reason: str


Message = Ready | LoadFailed | Done | Failed


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """The settings that a worker needs to load the model: values, to be sent to a process.

    `device` is the name of the device. `softmax` is the path of a softmax that does not lie with
    the model; empty for none. `known` is the report of an earlier worker on the device; None for
    the first one.
    """

    model: str
    device: str
    precision: str
    threads: int
    warm_up_tokens: int
    softmax: str = ""
    softmax_words: int | None = None
    known: Ready | None = None
