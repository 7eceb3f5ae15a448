"""The result of a load test as text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from elmo_serve.load_test.phase import PERCENTILES, Phase, percentiles

USED = 0.8
"""Largest share of a server's throughput that a load should take at its peak. A higher one needs
fewer servers and lets the queue grow: latencies of a server grow without bound towards 1."""

_LATE_SEND_SECONDS = 0.01
"""Lag of the load generator at p99 above which the report says so."""


def table(title: str, phases: Sequence[Phase]) -> Group:
    """Return the table of the phases, a row each, and the lines below it."""
    names = [f"p{percent:g}" for percent in PERCENTILES]
    found = Table(box=None, pad_edge=False, padding=(0, 1))
    found.add_column("load", no_wrap=True)
    for name in ("requests/s", "tokens/s", *names, "max ms"):
        found.add_column(name, justify="right", no_wrap=True)
    found.add_column("not right")
    for phase in phases:
        found.add_row(*_row(phase))
    return Group(Text(title + "\n"), found, Text("\n".join(_lines(phases))))


def _row(phase: Phase) -> list[str]:
    times = [*percentiles(phase.latencies), max(phase.latencies, default=math.nan)]
    counts = {
        "refused": phase.refused.total(),
        "late": phase.late,
        "failed": phase.failed.total(),
        "lost": phase.lost,
        "wrong": phase.wrong,
    }
    found = [f"{number:,} {name}" for name, number in counts.items() if number]
    return [
        phase.name,
        f"{phase.requests_per_second:,.1f}",
        f"{phase.tokens_per_second:,.0f}",
        *("-" if math.isnan(seconds) else f"{1e3 * seconds:,.1f}" for seconds in times),
        ", ".join(found) or "0",
    ]


def _lines(phases: Sequence[Phase]) -> Iterator[str]:
    tokens = max(sum(phase.tokens for phase in phases), 1)
    sent = sum(phase.sent_bytes for phase in phases) / tokens
    received = sum(phase.received_bytes for phase in phases) / tokens
    yield ""
    yield f"A token: {sent:,.1f} bytes sent, {received:,.0f} bytes received."
    compared = sum(phase.compared for phase in phases)
    worst = max((phase.worst for phase in phases), default=0.0)
    yield f"Responses compared: {compared:,}; largest difference {worst:.3g} of the tolerance."
    lag = max((percentiles(phase.lags)[2] for phase in phases if phase.lags), default=0.0)
    if lag > _LATE_SEND_SECONDS:
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
    """Yield a line for each rate: the number of such servers that it needs."""
    most = max((phase.tokens_per_second for phase in phases), default=0.0)
    is_full = any(phase.rate is None for phase in phases)
    for phase in phases:
        count = servers(phase, most)
        if count is None:
            continue
        yield (
            f"{phase.name} at the peak need {'' if is_full else 'at most '}{count:,} such "
            f"server{'s' * (count != 1)}, each used to {USED:.0%} of {most:,.0f} tokens/s, the "
            f"most measured here{'.' if is_full else ' (--clients 64 measures full batches).'}"
        )


def servers(phase: Phase, tokens_per_second: float) -> int | None:
    """Return how many servers of that throughput the rate of a phase needs, None if unknown.

    replicas = peak tokens/s / (measured tokens/s x `USED`), rounded up.
    """
    if phase.rate is None or not phase.responses or not tokens_per_second:
        return None
    peak = phase.rate * phase.tokens / phase.responses
    return math.ceil(peak / (tokens_per_second * USED))


def as_json(phases: Sequence[Phase]) -> dict[str, Any]:
    """Return the phases as members of JSON, each with the servers that its rate needs."""
    most = max((phase.tokens_per_second for phase in phases), default=0.0)
    return {
        "phases": [{**phase.as_json(), "servers": servers(phase, most)} for phase in phases],
        "is_interrupted": any(phase.is_interrupted for phase in phases),
    }
