"""What the front and a worker say to each other: plain values, for processes and threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from elmo_serve.output import Output
from elmo_serve.workers.shared_memory import Segment


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a worker found in the checkpoint; the front itself never opens one."""

    name: str
    revision: str
    format: str
    layers: int
    dimension: int
    parameters: int
    precision: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Sentences to run together; sentence i is written to ``segment`` at ``offsets[i]``.

    A sentence is the JSON text of its list of tokens: the front hands it on without looking inside.
    """

    id: int
    sentences: tuple[bytes, ...]
    outputs: tuple[Output, ...]
    offsets: tuple[int, ...]
    tokens: int
    padded_tokens: int
    segment: Segment


@dataclass(frozen=True, slots=True)
class Ready:
    """The model is loaded, warmed up and has passed its self-test.

    ``seconds_per_token`` is that of the largest batch, words known; 0 when it was not measured.
    """

    info: ModelInfo
    seconds_per_token: float = 0.0


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """The model cannot be served from here; ``reason`` is one line for the operator."""

    reason: str


@dataclass(frozen=True, slots=True)
class Done:
    """A batch has been written to its segment, but for the sentences in ``not_finite``."""

    batch: int
    seconds: float
    cache_hits: int
    cache_misses: int
    not_finite: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """A batch raised. ``memory`` says that the device had no room for it."""

    batch: int
    seconds: float
    memory: bool
    reason: str


Message = Ready | LoadFailed | Done | Failed


class Worker(Protocol):
    """Where batches run: one at a time, in the order of submission."""

    def start(self, said: Callable[[Message], None], ended: Callable[[str], None]) -> None:
        """Begin to load. ``said`` gets every message, ``ended`` the one reason it stopped for.

        Both are called on the event loop; nothing is called after ``ended``.
        """

    def submit(self, batch: Batch) -> None:
        """Queue a batch behind those submitted before."""

    def kill(self) -> None:
        """End it now, whatever it does; ``ended`` follows."""

    async def stop(self) -> None:
        """Let it end by itself when it has nothing left to do, and wait for that."""


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """What a worker needs to know to load the model: values, which can be sent to a process."""

    model: str
    device: str
    precision: str
    token_cache_size: int
    gate_cache_bytes: int
    threads: int
    warm_up_tokens: int
    log_level: str
    log_format: str
