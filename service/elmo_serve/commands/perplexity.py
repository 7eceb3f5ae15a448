"""The command `elmo perplexity`."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

from pathlib import Path

import click

from elmo_serve.commands.terminal import fail


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("text", nargs=-1, required=True)
@click.option("--rows", default=256, help="Rows of bilm-tf's figure, which depends on them.")
@click.option("--sentences", type=int, help="Measure on the first ones, without bilm-tf's figure.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def perplexity(
    run: Path, text: tuple[str, ...], rows: int, sentences: int | None, as_json: bool
) -> None:
    """Say how well the last snapshot of RUN predicts TEXT."""
    from elmo_model.training.command import CommandError
    from elmo_model.training.command import perplexity as measure

    try:
        click.echo(measure(run, text, rows, sentences, as_json))
    except CommandError as error:
        fail(str(error), code=1)
