"""The command `elmo bench`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import orjson

from elmo_model.errors import shown
from elmo_serve.commands.options import Number, api_key_option, json_option, served_model_option
from elmo_serve.commands.terminal import fail, show, steps, tell
from elmo_serve.files.connected import connected
from elmo_serve.output import MEDIA_TYPES, NAMED

_POSITIVE = Number(min=0, min_open=True)


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
@click.option(
    "--duration", type=_POSITIVE, default=10.0, show_default=True, help="Seconds of each load."
)
@click.option(
    "--warm-up",
    type=Number(min=0),
    default=2.0,
    show_default=True,
    help="Seconds of each load before it is measured.",
)
@click.option(
    "--text",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Sentences: a line of tokens each.",
)
@click.option("--sentences", type=click.IntRange(min=1), help="Sentences a request. Default: 8.")
@click.option("--tokens", type=click.IntRange(min=1), help="Tokens a request, in place of that.")
@click.option(
    "--layers", metavar="NAMES", help=f"{', '.join(NAMED)}, or numbers such as 0,2. Default: all."
)
@click.option("--task", metavar="NAME", help="A registered task, in place of layers.")
@click.option("--pooling", type=click.Choice(["none", "mean", "max"]), help="Default: none.")
@click.option("--dtype", type=click.Choice(["float32", "float16"]), help="Default: float32.")
@click.option("--normalize", is_flag=True, help="Vectors of length 1.")
@click.option(
    "--format",
    "media",
    type=click.Choice(list(MEDIA_TYPES)),
    default="safetensors",
    show_default=True,
    help="Format of the responses.",
)
@served_model_option()
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
@api_key_option()
@json_option()
def bench(url: str, as_json: bool, **values: Any) -> None:
    """Measure the speed of a server, and check its vectors.

    --clients and --rate may be repeated: a row each. For each rate a line says how many such
    servers it needs at most. Every response is compared with the first to the same request. Made
    sentences have a log-normal length (median 20 tokens, mean 24, at most 120) and common English
    words; --text takes yours. The exit code is 1 where a vector was wrong or a request was lost or
    failed; refusals (429, 503) and late responses (504, or after --timeout) are counted apart.

    \b
    Examples:
      $ elmo bench http://localhost:8000
      $ elmo bench http://localhost:8000 --clients 1 --clients 8 --clients 64
      $ elmo bench http://localhost:8000 --clients 64 --rate 50 --duration 60 --layers top
      $ elmo bench http://localhost:8000 --text sentences.txt --tokens 1000 --format npz --json
    """
    from elmo_serve.load_test import report, run

    for one, other in (("layers", "task"), ("sentences", "tokens")):
        if values[one] and values[other]:
            fail(f"--{one} and --{other}: give one of them", code=2)
    layers = values["layers"] or ""
    if layers and layers not in NAMED and not layers.replace(",", "").isdecimal():
        fail(f"--layers: there is no {shown(layers)}, expected {', '.join(NAMED)}, or numbers", 2)
    options = run.BenchOptions(**values)
    with (
        connected(url, options.api_key, options.model, patience_seconds=0) as client,
        steps() as step,
    ):
        measured = run.measure(url, client, options, step)
    phases = measured.phases
    if not phases:
        fail("interrupted; nothing was measured", code=130)
    if as_json:
        click.echo(orjson.dumps({**measured.described(), **report.as_json(phases)}))
    else:
        show(report.table(measured.title, phases), width=200)
    for phase in phases:
        if phase.is_too_short:
            tell(
                f"{phase.name}: no request was answered in {phase.seconds:g} s, expected at least "
                "one: give a longer --duration"
            )
    is_interrupted = phases[-1].is_interrupted
    sys.exit(130 if is_interrupted else int(any(phase.is_bad for phase in phases)))
