"""The result of a load test as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from elmo_serve.load_test.latencies import PERCENTILES
from elmo_serve.load_test.run import Measured
from elmo_serve.load_test.saturation import FOLLOWS
from elmo_serve.load_test.tally import Tally

_WIDE = 200  # characters of a line where the output is no terminal

_LATE_SEND_SECONDS = 0.01
"""Lag of the load generator at p99 above which the report says so."""


def table(title: str, measured: Measured) -> Group:
    """Return the table of the phases, a row each, and the lines below it."""
    names = [f"p{percent:g}" for percent in PERCENTILES]
    found = Table(box=None, pad_edge=False, padding=(0, 1))
    found.add_column("load", no_wrap=True)
    for name in ("requests/s", "tokens/s", *names, "max ms"):
        found.add_column(name, justify="right", no_wrap=True)
    found.add_column("not right")
    for tally in measured.tallies:
        found.add_row(*_row(tally))
    return Group(Text(title + "\n"), found, Text("\n".join(_lines(measured))))


def show(title: str, measured: Measured) -> None:
    """Print the table to standard output, as wide as it needs where that is no terminal."""
    console = Console()
    if not console.is_terminal:
        console.width = _WIDE
    console.print(table(title, measured))


def _row(tally: Tally) -> list[str]:
    latency = tally.latencies
    times = [latency.percentile(percent) for percent in PERCENTILES] + [latency.largest]
    counts = {
        "refused": tally.refused.total(),
        "late": tally.late,
        "failed": tally.failed.total(),
        "lost": tally.lost,
        "wrong": tally.wrong,
    }
    found = [f"{number:,} {name}" for name, number in counts.items() if number]
    return [
        tally.name,
        f"{tally.requests_per_second:,.1f}",
        f"{tally.tokens_per_second:,.0f}",
        *(f"{1e3 * seconds:,.1f}" if latency.count else "-" for seconds in times),
        ", ".join(found) or "0",
    ]


def _lines(measured: Measured) -> Iterator[str]:
    tallies = measured.tallies
    tokens = max(sum(tally.tokens for tally in tallies), 1)
    sent = sum(tally.sent_bytes for tally in tallies) / tokens
    received = sum(tally.received_bytes for tally in tallies) / tokens
    yield ""
    yield f"A token: {sent:,.1f} bytes sent, {received:,.0f} bytes received."
    compared = sum(tally.compared for tally in tallies)
    worst = max((tally.worst for tally in tallies), default=0.0)
    yield f"Responses compared: {compared:,}; largest difference {worst:.3g} of the tolerance."
    lags = [tally for tally in tallies if tally.lags.percentile(99) > _LATE_SEND_SECONDS]
    if lags:
        most = max(1e3 * tally.lags.percentile(99) for tally in lags)
        yield (
            f"The load generator sent late (p99 {most:.0f} ms, part of the latencies): "
            "run it on a machine of its own."
        )
    if measured.saturation is not None:
        yield _saturation(measured)
    if measured.is_interrupted:
        yield "Interrupted: the last row is incomplete."
    for tally in tallies:
        for fault in tally.faults:
            yield f"{tally.name}: {fault}"


def _saturation(measured: Measured) -> str:
    assert measured.saturation is not None
    followed, beyond = measured.saturation.followed, measured.saturation.beyond
    if followed is None:
        return "Saturation: no rate was followed."
    text = (
        f"Saturation: {followed.name} was followed ({FOLLOWS:.0%} answered right and in time), "
        f"{followed.tokens_per_second:,.0f} tokens/s, p99 "
        f"{1e3 * followed.latencies.percentile(99):,.1f} ms"
    )
    return text + (f"; {beyond.name} was not." if beyond is not None else "; no limit was found.")
