"""The command `elmo bench`."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from elmo_model.errors import counted
from elmo_serve.commands.options import Number, api_key_option, json_option
from elmo_serve.commands.terminal import fail
from elmo_serve.files.connected import connected
from elmo_serve.load_test.connections import Connections

if TYPE_CHECKING:
    from elmo_serve.load_test.run import Phase, Request

_POSITIVE = Number(min=0, min_open=True)
_MOST_CONNECTIONS = 1_000
_SENTENCES = 8  # of a request, without --body


@click.command()
@click.argument("url")
@click.option(
    "--clients",
    type=click.IntRange(min=1),
    metavar="N",
    help="Closed loop: N clients, each sends when it is answered. Default: 8, without --rate.",
)
@click.option(
    "--rate",
    type=_POSITIVE,
    metavar="R",
    help="Open loop: R requests/s, Poisson arrivals; latency counts from when each was due.",
)
@click.option("--duration", type=_POSITIVE, default=10.0, show_default=True, help="Seconds.")
@click.option(
    "--body",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Bodies of POST /embed, one a line, sent in turn. Default: 8 English sentences each.",
)
@api_key_option
@json_option()
def bench(
    url: str,
    clients: int | None,
    rate: float | None,
    duration: float,
    body: Path | None,
    api_key: str | None,
    as_json: bool,
) -> None:
    """Measure the speed of a server, and check its vectors.

    The first fifth of the time, at most 2 s, is not measured. A response is right if it has the
    shapes of the first one to the same body, its numbers are finite, and they differ by at most
    1e-5 (float16 1e-3) of the largest value. The exit code is 1 where a vector was wrong or a
    request was lost or failed; refusals (429, 503) and late responses are counted apart.

    \b
    Examples:
      $ elmo bench http://localhost:8000 --clients 64
      $ elmo bench http://localhost:8000 --rate 50 --duration 60 --body bodies.jsonl --json
    """
    from elmo_serve.load_test.run import Reference

    if clients and rate:
        fail("--clients and --rate: give one of them", code=2)
    if "@" in url:
        fail("URL has a user or a password, which `elmo bench` does not send", code=2)
    request = Reference().request
    bodies = body.read_bytes().splitlines() if body else _made_bodies()
    requests = [request(line) for line in bodies if line.strip()]
    if not requests:
        fail(f"{body}: is empty, expected a body of POST /embed a line", code=1)
    with connected(url, api_key, None, patience_seconds=0) as client:
        info = client.info()
    phase = _phase(url, requests, clients or 8, rate, duration, api_key)
    found = phase.summary()
    if as_json:
        members = {"url": url, "server": info, **found}
        click.echo(orjson.dumps(members, option=orjson.OPT_NON_STR_KEYS))
    else:
        click.echo(f"{url}: {info['model']}, {info['precision']}")
        for name, value in found.items():
            click.echo(f"{name}: {_text(value)}")
    sys.exit(int(phase.is_bad))


def _text(value: Any) -> str:
    """Return a member of the summary: a number, text, counts by status, or lines."""
    if isinstance(value, Mapping):
        return ", ".join(f"{count} with {status}" for status, count in value.items()) or "0"
    if isinstance(value, list):
        return "; ".join(value) or "none"
    return f"{value:,.3f}" if isinstance(value, float) else str(value)


def _made_bodies() -> list[bytes]:
    """Return bodies with the sentences of the text that comes with the program."""
    from elmo_model.inference import centre

    sentences = centre.sentences()
    starts = range(0, len(sentences), _SENTENCES)
    return [orjson.dumps({"sentences": sentences[start:][:_SENTENCES]}) for start in starts]


def _phase(
    url: str,
    requests: list[Request],
    clients: int,
    rate: float | None,
    duration: float,
    api_key: str | None,
) -> Phase:
    """Send the requests in turn, in an open loop where `rate` is given."""
    import uvloop

    from elmo_serve.load_test import run

    async def loop() -> Phase:
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        connections = Connections(url, _MOST_CONNECTIONS, headers)
        send = run.Sender(connections, cycle(requests)).send
        name = counted(clients, "client") if rate is None else f"{rate:,.4g} requests/s"
        start = time.perf_counter()
        phase = run.Phase(name, start + min(2.0, duration / 5), start + duration)
        if rate is None:
            await run.closed_loop(send, phase, clients)
        else:
            await run.open_loop(send, phase, rate, random.Random(1))
        await connections.close()
        return phase

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(loop())
