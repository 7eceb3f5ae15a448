"""The command `elmo perplexity`."""

from __future__ import annotations

from typing import Any

import click

from elmo_serve.commands.options import (
    PlainText,
    device_option,
    json_option,
    resolve_model,
    tell_of_raw,
)
from elmo_serve.commands.terminal import steps


@click.command()
@click.argument("model")
@click.argument("text", type=PlainText(), nargs=-1, required=True)
@click.option(
    "--sentences", type=click.IntRange(min=1), help="Measure the first sentences. Default: all."
)
@device_option()
@json_option()
def perplexity(model: str, text: tuple[str, ...], device: str, **options: Any) -> None:
    """Measure the perplexity of a training run, or of a model with a softmax, on text.

    MODEL is the folder of `elmo train`, whose last snapshot is measured, or a name or path. TEXT
    are paths or patterns of files with one tokenised sentence a line. Each sentence is read from
    zero state, as it is served.

    \b
    Examples:
      $ elmo perplexity run heldout.txt
      $ elmo perplexity run 'heldout-*.txt.gz' --sentences 1000 --json
    """
    from elmo_model.training.command import perplexity as measure
    from elmo_model.training.corpus import find_shards
    from elmo_serve.models.in_process import place_of

    resolved = resolve_model(model)
    tell_of_raw(find_shards(text)[0])
    with steps() as step:
        found = measure(resolved, text, **options, on_step=step, device=place_of(device))
    click.echo(found)
