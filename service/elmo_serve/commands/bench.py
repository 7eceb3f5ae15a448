"""The command `elmo bench`."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import orjson

from elmo_serve.commands.removed import removed_option
from elmo_serve.commands.terminal import fail, steps
from elmo_serve.output import NAMED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elmo_serve.load_test.phase import Phase
    from elmo_serve.load_test.sender import Request
    from elmo_serve.load_test.workload import Workload

# Named here and not taken from the table of encoders, which imports numpy.
FORMATS: Final = {
    "json": "application/json",
    "npz": "application/x-npz",
    "safetensors": "application/vnd.safetensors",
    "arrow": "application/vnd.apache.arrow.stream",
}

_CLIENTS = 8
_SENTENCES = 8  # a request

_REQUESTS = 64
_OPEN_REQUESTS = 200
"""Least number of distinct requests, without and with an open loop. A higher number compares fewer
responses of a short test; with a lower one several of a request are in flight, and the server
computes them together."""

_REQUESTS_A_CLIENT = 4

_SERVER = (
    *("model", "revision", "precision", "devices", "dimension", "layers", "version", "limits"),
)
_FIELDS = ("layers", "task", "pooling", "dtype", "normalize", "model")

_POSITIVE = click.FloatRange(min=0, min_open=True)


@click.command()
@click.argument("url")
@click.option(
    "--clients",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="N",
    help="Closed loop: N clients, each sends when it is answered. Default: 8, without --rate.",
)
@click.option(
    "--rate",
    "rates",
    type=_POSITIVE,
    multiple=True,
    metavar="R",
    help="Open loop: R requests/s, Poisson arrivals; latency counts from when each was due.",
)
@removed_option(
    "--find-saturation",
    "give --clients 64, or --rate several times; the report says how many servers a rate needs",
    is_flag=True,
)
@click.option(
    "--duration", type=_POSITIVE, default=10.0, show_default=True, help="Seconds of each load."
)
@click.option(
    "--warm-up",
    type=click.FloatRange(min=0),
    default=2.0,
    show_default=True,
    help="Seconds of each load before it is measured.",
)
@click.option("--text", type=Path, metavar="FILE", help="Sentences: a line of tokens each.")
@click.option("--sentences", type=click.IntRange(min=1), help="Sentences a request. Default: 8.")
@click.option("--tokens", type=click.IntRange(min=1), help="Tokens a request, in place of that.")
@click.option(
    "--layers", metavar="NAMES", help=f"{', '.join(NAMED)}, or numbers such as 0,2. Default: all."
)
@click.option("--task", metavar="NAME", help="A registered task, in place of layers.")
@click.option("--pooling", type=click.Choice(["none", "mean", "max"]))
@click.option("--dtype", type=click.Choice(["float32", "float16"]))
@click.option("--normalize", is_flag=True, help="Vectors of length 1.")
@click.option(
    "--format",
    "media",
    type=click.Choice(list(FORMATS)),
    default="safetensors",
    show_default=True,
    help="Format of the responses.",
)
@click.option("--model", "-m", metavar="NAME", help="Model of the server. Default: the first.")
@removed_option(
    "--reference",
    "each response is compared with the first one to the same request; a test of the project "
    "compares with the model",
)
@click.option(
    "--tolerance", type=_POSITIVE, help="Largest right difference, by the largest number."
)
@click.option("--timeout", type=_POSITIVE, default=60.0, show_default=True, help="Seconds.")
@click.option(
    "--connections",
    type=click.IntRange(min=1),
    default=1_000,
    show_default=True,
    help="Most connections; requests that are due wait for a free one.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of sentences and arrivals.")
@click.option(
    "--api-key", "--key", envvar="ELMO_API_KEY", show_envvar=True, help="A key of the server."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench(url: str, as_json: bool, **options: Any) -> None:
    """Measure the speed of a server, and check its vectors.

    --clients and --rate may be repeated: a row each. For each rate a line says how many such
    servers it needs. Every response is compared with the first one to the same request. Made
    sentences have a log-normal length (median 20 tokens, mean 24, at most 120) and common English
    words; --text takes yours. The exit code is 1 where a vector was wrong or a request was lost or
    failed; refusals (429, 503) and late responses (504, or after --timeout) are counted apart.

    \b
    Examples:
      $ elmo bench http://localhost:8000
      $ elmo bench http://localhost:8000 --clients 1 --clients 8 --clients 64
      $ elmo bench http://localhost:8000 --clients 64 --rate 50 --duration 60 --layers top
      $ elmo bench http://localhost:8000 --text sentences.txt --tokens 1000 --format arrow --json
    """
    from elmo_client import ElmoError
    from elmo_serve.load_test.report import as_json as members_of
    from elmo_serve.load_test.report import show
    from elmo_serve.load_test.workload import WorkloadError

    workload = _workload(options)
    try:
        info, requests, phases = _measure(url, workload, options)
    except (ElmoError, WorkloadError) as error:
        fail(str(error), code=1)
    except KeyboardInterrupt:
        phases = []
    if not phases:
        fail("interrupted; nothing was measured", code=130)
    if as_json:
        described = {"url": url, **_described(info, workload, requests)}
        click.echo(orjson.dumps({**described, **members_of(phases)}))
    else:
        show(_title(url, info, workload, requests), phases)
    is_interrupted = phases[-1].is_interrupted
    sys.exit(130 if is_interrupted else int(any(phase.is_bad for phase in phases)))


def _measure(
    url: str, workload: Workload, options: dict[str, Any]
) -> tuple[dict[str, Any], list[Request], list[Phase]]:
    """Return the response of GET /info, the requests, and what was measured with them."""
    from elmo_client import Client
    from elmo_serve.load_test.run import LoadTest

    key, clients, rates = options["api_key"], options["clients"], options["rates"]
    if not (clients or rates):
        clients = (_CLIENTS,)
    names = ("duration", "warm_up", "connections", "timeout", "seed")
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    test = LoadTest(url, headers, clients, rates, **{name: options[name] for name in names})
    with (
        Client(url, api_key=key, model=options["model"], patience_seconds=0) as client,
        steps() as step,
    ):
        step("Preparing requests")
        info = client.info()
        least = _OPEN_REQUESTS if rates else _REQUESTS
        count = max(least, _REQUESTS_A_CLIENT * max(clients, default=0))
        requests = workload.requests(client, count, options["tolerance"])
        return info, requests, test.run(requests, step)


def _workload(options: dict[str, Any]) -> Workload:
    from elmo_serve.load_test.workload import Workload

    for one, other in (("layers", "task"), ("sentences", "tokens")):
        if options[one] and options[other]:
            fail(f"--{one} and --{other}: give one of them", code=2)
    fields = {name: options[name] for name in _FIELDS if options[name]}
    if "layers" in fields:
        fields["layers"] = _layers(fields["layers"])
    sentences, names = options["sentences"] or _SENTENCES, ("tokens", "text", "seed")
    return Workload(
        FORMATS[options["media"]], fields, sentences, **{name: options[name] for name in names}
    )


def _layers(text: str) -> str | list[int]:
    numbers = text.split(",")
    return [int(each) for each in numbers] if all(map(str.isdecimal, numbers)) else text


def _described(
    info: dict[str, Any], workload: Workload, requests: Sequence[Request]
) -> dict[str, Any]:
    """Return the server and the requests as members of JSON."""
    return {
        "server": {name: info.get(name) for name in _SERVER},
        "requests": {
            "size": workload.size,
            "mean_tokens": _mean_tokens(requests),
            "fields": workload.fields,
            "media_type": workload.media_type,
        },
    }


def _title(url: str, info: dict[str, Any], workload: Workload, requests: Sequence[Request]) -> str:
    devices = ", ".join(info.get("devices", ()))
    return (
        f"{url}: {info['model']} {info['revision'][:12]}, {info['precision']} on {devices}\n"
        f"{len(requests)} requests of {workload.size}, {_mean_tokens(requests):,.0f} tokens on "
        f"average; {workload}"
    )


def _mean_tokens(requests: Sequence[Request]) -> float:
    return sum(request.tokens for request in requests) / len(requests)
