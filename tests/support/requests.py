"""Requests for the parts of the scheduler that need no event loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from elmo_serve.processes.arena import Arena, Vectors
from elmo_serve.scheduling.budgets import Budget
from elmo_serve.scheduling.request import Request, Sentences
from elmo_serve.selection import Output

OUTPUT = Output(layers=(0,), stacked=True)


def request_of(
    lengths: Sequence[int],
    *,
    now: float = 0.0,
    spacing: float = 1.0,
    budget: Budget | None = None,
    on_end: Callable[[], None] = lambda: None,
    is_bulk: bool = False,
) -> Request:
    """Return a request with sentences of these lengths; no two are equal."""
    texts = [b"%d" % index for index in range(len(lengths))]
    sentences = Sentences(texts, lengths, [OUTPUT] * len(lengths))
    held = (budget or budget_of()).hold("", sentences.cost)
    return Request(sentences, held, now, spacing, on_end, is_bulk)


def budget_of() -> Budget:
    """Return a budget that is never used up."""
    return Budget(1 << 40, "tokens", "")


def vectors_of(number: float) -> Vectors:
    """Return the vectors of one token: one number in shared memory."""
    block = Arena().acquire(4)
    block.array.view(np.float32)[0] = number
    return Vectors(block, 0, (1,), "float32")
