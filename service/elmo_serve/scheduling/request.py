"""A sentence on its way through the queue, and the requests that wait for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from elmo_serve.output import BOUNDARIES, Output
from elmo_serve.workers.shared_memory import Vectors


def cost_of(lengths: Sequence[int]) -> int:
    """Return what sentences of so many tokens cost together."""
    return sum(lengths) + BOUNDARIES * len(lengths)


@dataclass(slots=True, eq=False)
class Request:
    """All sentences of one call, answered together or not at all."""

    answers: list[Vectors | None]
    future: asyncio.Future[None]
    missing: int
    outstanding: int = 0  # tokens of what is missing, boundaries included
    admitted: float = field(default_factory=time.monotonic)
    started: float = 0.0
    finished: float = 0.0

    def start(self, now: float) -> None:
        """Note that the first sentence has left the queue."""
        self.started = self.started or now

    def answer(self, index: int, vectors: Vectors, cost: int) -> None:
        """Take the vectors of one sentence; the last one resolves the call."""
        self.answers[index] = vectors
        self.missing -= 1
        self.outstanding -= cost
        if not self.missing and not self.future.done():
            self.finished = time.monotonic()
            self.future.set_result(None)

    def fail(self, error: Exception) -> None:
        """Give the call its one error."""
        if not self.future.done():
            self.future.set_exception(error)


@dataclass(slots=True, eq=False)
class Job:
    """One sentence to compute: ``sentence`` is opaque, ``tokens`` is what it costs.

    ``rank`` orders the queue: when it is due, in seconds of the monotonic clock. Several calls may
    wait for the same sentence, each at an index of its own; without any the job is dead and is
    never computed. ``call`` is the cost of the smallest of those calls.
    """

    sentence: bytes
    output: Output
    tokens: int
    rank: float
    waiting: list[tuple[Request, int]]
    is_queued: bool = True
    passed_over: int = 0
    attempts: int = 0
    call: int = 0

    @property
    def cost(self) -> int:
        """Tokens with the two boundaries."""
        return self.tokens + BOUNDARIES

    def answer(self, vectors: Vectors) -> None:
        """Hand the vectors to every call that waits."""
        for request, index in self.waiting:
            request.answer(index, vectors, self.cost)
        self.waiting.clear()

    def fail(self, error: Exception) -> None:
        """Fail every call that waits."""
        for request, _ in self.waiting:
            request.fail(error)
        self.waiting.clear()
