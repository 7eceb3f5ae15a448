"""The command `elmo bench`."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click
import orjson

from elmo_serve.commands.published import resolve_model
from elmo_serve.commands.terminal import fail, steps
from elmo_serve.output import NAMED

if TYPE_CHECKING:
    from elmo_client import Client
    from elmo_serve.load_test.reference import Embed
    from elmo_serve.load_test.requests import Wanted
    from elmo_serve.load_test.run import Loads, Measured
    from elmo_serve.load_test.workload import Body, RequestSize

# Named here and not taken from the table of encoders, which imports numpy.
FORMATS: Final = {
    "json": "application/json",
    "npz": "application/x-npz",
    "safetensors": "application/vnd.safetensors",
    "arrow": "application/vnd.apache.arrow.stream",
}

_CLIENTS = 8
_SENTENCES = 8  # a request

_BODIES = 64
_OPEN_BODIES = 200
"""Least number of distinct requests, without and with an open loop. A higher number compares fewer
responses of a short test; with a lower one several of a body are in flight, and the server computes
them together."""

_BODIES_A_CLIENT = 4

_SERVER = (
    *("model", "revision", "precision", "devices", "dimension", "layers", "version", "limits"),
)

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
@click.option("--find-saturation", is_flag=True, help="Search the highest rate that is answered.")
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
@click.option("--pooling", type=click.Choice(["none", "mean", "max"]), default="none")
@click.option("--dtype", type=click.Choice(["float32", "float16"]), default="float32")
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
@click.option(
    "--reference",
    metavar="MODEL|URL",
    help="Compare with this model in process, or that server. Default: each body's first response.",
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

    --clients and --rate may be repeated: a row each. Every response is compared with the first one
    to the same body, or with --reference. Made sentences have a log-normal length (median 20
    tokens, mean 24, at most 120) and common English words; --text takes yours. The exit code is 1
    where a vector was wrong or a request was lost or failed; refusals (429, 503) and late responses
    (504, or after --timeout) are counted apart.

    \b
    Examples:
      $ elmo bench http://localhost:8000
      $ elmo bench http://localhost:8000 --clients 1 --clients 8 --clients 64
      $ elmo bench http://localhost:8000 --rate 50 --duration 60 --layers top --pooling mean
      $ elmo bench http://localhost:8000 --find-saturation --tokens 1000 --format arrow
      $ elmo bench http://localhost:8000 --text sentences.txt --reference english --json
    """
    from elmo_client import ElmoError
    from elmo_serve.load_test.report import show
    from elmo_serve.load_test.workload import WorkloadError

    wanted, size = _wanted(options), _size(options)
    try:
        info, bodies, measured = _measure(url, wanted, size, options)
    except (ElmoError, WorkloadError) as error:
        fail(str(error), code=1)
    except KeyboardInterrupt:
        fail("interrupted; nothing was measured", code=130)
    if as_json:
        members = {"url": url, **_described(info, wanted, size, bodies), **measured.as_json()}
        click.echo(orjson.dumps(members))
    else:
        show(_title(url, info, wanted, size, bodies), measured)
    sys.exit(130 if measured.is_interrupted else int(measured.is_bad))


def _measure(
    url: str, wanted: Wanted, size: RequestSize, options: dict[str, Any]
) -> tuple[dict[str, Any], list[Body], Measured]:
    """Return the response of GET /info, the requests, and what was measured with them."""
    from elmo_serve.load_test.reference import expect
    from elmo_serve.load_test.requests import bodies_for, checker_for
    from elmo_serve.load_test.run import run

    with _client(url, options) as client, steps() as step:
        step("Preparing requests")
        info = client.info()
        is_open = options["rates"] or options["find_saturation"]
        least = _OPEN_BODIES if is_open else _BODIES
        count = max(least, _BODIES_A_CLIENT * max(options["clients"], default=0))
        text, seed = options["text"], options["seed"]
        bodies = bodies_for(wanted, size, count, text, seed, info["limits"])
        checker = checker_for(wanted, client, options["tolerance"])
        if options["reference"]:
            step("Computing the reference")
            with _reference(url, options, wanted, client) as embed:
                expect(checker, bodies, embed)
        headers = _headers(options["api_key"])
        media_type, loads = wanted.media_type, _loads(options)
        return info, bodies, run(url, headers, loads, bodies, checker, media_type, step)


def _described(
    info: dict[str, Any], wanted: Wanted, size: RequestSize, bodies: Sequence[Body]
) -> dict[str, Any]:
    """Return the server and the requests as members of JSON."""
    from elmo_serve.load_test.workload import mean_tokens

    return {
        "server": {name: info.get(name) for name in _SERVER},
        "requests": {
            "size": str(size),
            "mean_tokens": mean_tokens(bodies),
            "fields": wanted.fields,
            "media_type": wanted.media_type,
            "lengths": [[len(sentence) for sentence in body.sentences] for body in bodies],
        },
    }


def _client(url: str, options: dict[str, Any]) -> Client:
    from elmo_client import Client

    key, model = options["api_key"], options["model"]
    return Client(url, api_key=key, model=model, patience_seconds=0)


@contextmanager
def _reference(
    url: str, options: dict[str, Any], wanted: Wanted, client: Client
) -> Iterator[Embed]:
    """Open the reference: a URL is a server, everything else a model.

    The key of the measured server is sent to no other one.
    """
    from elmo_client import Client
    from elmo_serve.load_test.reference import in_process, of_server

    reference = options["reference"]
    if reference.startswith(("http://", "https://")):
        is_same = urlsplit(reference)[:2] == urlsplit(url)[:2]  # scheme, host and port
        key = options["api_key"] if is_same else None
        with Client(reference, api_key=key) as other:
            yield of_server(other, wanted)
    else:
        model = resolve_model(reference)
        yield in_process(model, wanted.output(client), client.info())


def _wanted(options: dict[str, Any]) -> Wanted:
    from elmo_serve.load_test.requests import Wanted

    if options["layers"] and options["task"]:
        fail("--layers and --task: give one of them", code=2)
    names = ("layers", "task", "pooling", "dtype", "normalize", "model")
    return Wanted(FORMATS[options["media"]], **{name: options[name] for name in names})


def _size(options: dict[str, Any]) -> RequestSize:
    from elmo_serve.load_test.workload import RequestSize

    if options["sentences"] and options["tokens"]:
        fail("--sentences and --tokens: give one of them", code=2)
    return RequestSize(options["sentences"] or _SENTENCES, options["tokens"])


def _loads(options: dict[str, Any]) -> Loads:
    from elmo_serve.load_test.run import Loads

    clients = options["clients"]
    if not (clients or options["rates"] or options["find_saturation"]):
        clients = (_CLIENTS,)
    names = ("rates", "find_saturation", "duration", "warm_up", "connections", "timeout", "seed")
    return Loads(clients, **{name: options[name] for name in names})


def _headers(api_key: str | None) -> dict[str, str]:
    return {} if api_key is None else {"Authorization": f"Bearer {api_key}"}


def _title(
    url: str, info: dict[str, Any], wanted: Wanted, size: RequestSize, bodies: Sequence[Body]
) -> str:
    from elmo_serve.load_test.workload import mean_tokens

    devices = ", ".join(info.get("devices", ()))
    return (
        f"{url}: {info['model']} {info['revision'][:12]}, {info['precision']} on {devices}\n"
        f"{len(bodies)} requests of {size}, {mean_tokens(bodies):,.0f} tokens on average; {wanted}"
    )
