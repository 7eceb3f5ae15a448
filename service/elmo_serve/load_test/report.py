"""The result of a load test as text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from elmo_model.errors import counted
from elmo_serve.load_test.phase import PERCENTILES, Phase, percentiles

TARGET_UTILIZATION = 0.8
"""Largest share of a server's throughput that a load should take at its peak. A higher share needs
fewer servers; the queue is longer, and latency grows without bound as the share approaches 1."""

_LARGEST_SEND_LAG_SECONDS = 0.01
"""The report warns of a load generator whose lag is larger at p99."""


def table(title: str, phases: Sequence[Phase]) -> Group:
    """Return the table of the phases, a row each, and the lines below it."""
    names = [f"p{percent:g}" for percent in PERCENTILES]
    rows = Table(box=None, pad_edge=False, padding=(0, 1))
    rows.add_column("load", no_wrap=True)
    for name in ("requests/s", "tokens/s", *names, "max ms"):
        rows.add_column(name, justify="right", no_wrap=True)
    rows.add_column("not right")
    for phase in phases:
        rows.add_row(*_row(phase))
    return Group(Text(title + "\n"), rows, Text("\n".join(_lines(phases))))


def _row(phase: Phase) -> list[str]:
    times = [*percentiles(phase.latencies).values(), max(phase.latencies, default=math.nan)]
    counts = {
        "refused": phase.refused.total(),
        "late": phase.late,
        "failed": phase.failed.total(),
        "lost": phase.lost,
        "wrong": phase.wrong,
    }
    not_right = [f"{number:,} {name}" for name, number in counts.items() if number]
    return [
        phase.name,
        f"{phase.requests_per_second:,.1f}",
        f"{phase.tokens_per_second:,.0f}",
        *("-" if math.isnan(seconds) else f"{1e3 * seconds:,.1f}" for seconds in times),
        ", ".join(not_right) or "0",
    ]


def _lines(phases: Sequence[Phase]) -> Iterator[str]:
    tokens = max(sum(phase.tokens for phase in phases), 1)
    sent = sum(phase.sent_bytes for phase in phases) / tokens
    received = sum(phase.received_bytes for phase in phases) / tokens
    yield ""
    yield f"A token: {sent:,.1f} bytes sent, {received:,.0f} bytes received."
    compared = sum(phase.compared for phase in phases)
    worst = max((phase.worst for phase in phases), default=0.0)
    found = f"largest difference {worst:.3g} of the tolerance"
    none = "no request was answered twice, so no vector was checked; give a longer --duration"
    yield f"Responses compared: {compared:,}; {found if compared else none}."
    lag = max((percentiles(phase.lags)[99.0] for phase in phases if phase.lags), default=0.0)
    if lag > _LARGEST_SEND_LAG_SECONDS:
        yield (
            f"The load generator sent late (p99 {1e3 * lag:.0f} ms, part of the latencies): "
            "run it on a machine of its own."
        )
    yield from _servers(phases)
    if any(phase.is_interrupted for phase in phases):
        yield "Interrupted: the last row is incomplete."
    for phase in phases:
        for fault in phase.faults:
            yield f"{phase.name}: {fault}"


def _servers(phases: Sequence[Phase]) -> Iterator[str]:
    """Yield a line for each rate: the most servers that it needs, as batches may be fuller."""
    most = max((phase.tokens_per_second for phase in phases), default=0.0)
    for phase in phases:
        count = servers(phase, most)
        if count is not None:
            yield (
                f"{phase.name} at the peak need at most {counted(count, 'such server')}, "
                f"each used to {TARGET_UTILIZATION:.0%} of {most:,.0f} tokens/s, the most measured "
                "here."
            )
    if most and all(phase.rate is not None for phase in phases):
        yield "No load filled the batches: add --clients 64, and fewer servers may be enough."


def servers(phase: Phase, tokens_per_second: float) -> int | None:
    """Return how many servers of that throughput the rate of a phase needs, None if unknown.

    replicas = peak tokens/s / (measured tokens/s x `TARGET_UTILIZATION`), rounded up.
    """
    if phase.rate is None or not phase.responses or not tokens_per_second:
        return None
    peak = phase.rate * phase.tokens / phase.responses
    return math.ceil(peak / (tokens_per_second * TARGET_UTILIZATION))


def as_json(phases: Sequence[Phase]) -> dict[str, Any]:
    """Return the phases as members of JSON, each with the servers that its rate needs."""
    most = max((phase.tokens_per_second for phase in phases), default=0.0)
    return {
        "phases": [{**phase.as_json(), "servers": servers(phase, most)} for phase in phases],
        "is_interrupted": any(phase.is_interrupted for phase in phases),
    }
