"""The command `elmo plan`."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from elmo_serve.commands.terminal import fail, steps

if TYPE_CHECKING:
    from elmo_serve.capacity.measurement import Measurement
    from elmo_serve.capacity.plan import Goal

_POSITIVE = click.FloatRange(min=0, min_open=True)
_DAY_SECONDS = 86_400


@click.command()
@click.argument("measurement", type=Path)
@click.option("--tokens-per-day", type=_POSITIVE, metavar="N", help="Load: tokens a day.")
@click.option("--tokens-per-second", type=_POSITIVE, metavar="N", help="Load at its peak.")
@click.option("--requests-per-second", type=_POSITIVE, metavar="N", help="Load at its peak.")
@click.option(
    "--peak",
    type=click.FloatRange(min=1),
    default=1.0,
    show_default=True,
    help="Peak of the load in multiples of its mean.",
)
@click.option(
    "--p99", type=_POSITIVE, default=1_000.0, show_default=True, help="Longest p99 in ms."
)
@click.option(
    "--replicas", type=click.IntRange(min=1), help="Simulate so many, in place of a search."
)
@click.option(
    "--requests",
    type=click.IntRange(min=100),
    default=10_000,
    show_default=True,
    help="Requests of each simulation.",
)
@click.option("--timeout", type=_POSITIVE, default=60.0, show_default=True, help="Seconds.")
@click.option("--cores", type=click.IntRange(min=1), help="Cores of a replica, to print a share.")
@click.option("--price", type=_POSITIVE, help="Price of a replica for an hour.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(
    measurement: Path, cores: int | None, price: float | None, as_json: bool, **options: Any
) -> None:
    """Compute the replicas, network, disk and cost of a load.

    MEASUREMENT is a file of `elmo bench URL --json` of one server. It should have one client and
    many, so that the time of small and of full batches is known. The service's own scheduler is
    simulated with these times and requests, behind a proxy that sends each request to the replica
    with the fewest. The least number of replicas is searched whose p99 is short enough.

    \b
    Examples:
      $ elmo bench http://localhost:8000 --clients 1 --clients 32 --json > bench.json
      $ elmo plan bench.json --tokens-per-day 1e9 --peak 2 --p99 500
      $ elmo plan bench.json --requests-per-second 40 --replicas 3
    """
    from elmo_serve.capacity.measurement import MeasurementError, read
    from elmo_serve.capacity.plan import PlanError, make_plan
    from elmo_serve.capacity.report import lines

    try:
        measured = read(measurement)
        with steps() as step:
            found = make_plan(
                measured,
                _goal(measured, options),
                lambda tried: step(f"{tried.replicas:,} replicas"),
            )
    except (MeasurementError, PlanError) as error:
        fail(str(error), code=1)
    except KeyboardInterrupt:
        fail("interrupted", code=130)
    if as_json:
        click.echo(orjson.dumps(found.as_json(), option=orjson.OPT_INDENT_2))
    else:
        for line in lines(found, price, cores):
            click.echo(line)


def _goal(measured: Measurement, options: dict[str, Any]) -> Goal:
    from elmo_serve.capacity.plan import Goal

    peak = options["peak"]
    rates = {
        "tokens_per_day": peak / _DAY_SECONDS,
        "tokens_per_second": 1.0,
        "requests_per_second": measured.mean_tokens,
    }
    given = [options[name] * factor for name, factor in rates.items() if options[name] is not None]
    if len(given) != 1:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in rates)
        fail(f"give one of {names}", code=2)
    return Goal(
        given[0],
        options["p99"] / 1e3,
        peak,
        options["replicas"],
        options["timeout"],
        options["requests"],
    )
