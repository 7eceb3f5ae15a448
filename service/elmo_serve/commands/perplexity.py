"""The command `elmo perplexity`."""

from __future__ import annotations

from pathlib import Path

import click

from elmo_serve.commands.options import json_option
from elmo_serve.commands.terminal import fail, steps


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("text", nargs=-1, required=True)
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    help="Batch size of bilm-tf's figure.",
)
@click.option(
    "--sentences",
    type=click.IntRange(min=1),
    help="Measure the first sentences, without bilm-tf's figure. Default: all.",
)
@json_option()
def perplexity(
    run: Path, text: tuple[str, ...], rows: int, sentences: int | None, as_json: bool
) -> None:
    """Measure the perplexity of a training run on text.

    RUN is the folder of `elmo train`; its last snapshot is measured. TEXT are paths or patterns of
    files with one tokenised sentence a line. bilm-tf's figure carries state from batch to batch
    and so depends on --rows.

    \b
    Examples:
      $ elmo perplexity run heldout.txt
      $ elmo perplexity run 'heldout-*.txt.gz' --sentences 1000 --json
    """
    from elmo_model.training.command import perplexity as measure

    if not (run / "run.json").is_file():
        fail(
            f"{run}: is no folder of an `elmo train` run (it holds no run.json); only a run keeps "
            f"the softmax that predicts words, built-in and published models have none",
            code=1,
        )
    with steps() as step:
        found = measure(run, text, rows, sentences, as_json, step)
    click.echo(found)
