"""The command `elmo perplexity`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from elmo_serve.commands.options import (
    PlainText,
    device_option,
    json_option,
    resolve_model,
    tell_of_raw,
)
from elmo_serve.commands.terminal import steps

if TYPE_CHECKING:
    from elmo_model.training.command import Measured


@click.command()
@click.argument("model")
@click.argument("text", type=PlainText(), nargs=-1, required=True)
@click.option(
    "--sentences", type=click.IntRange(min=1), help="Measure the first sentences. Default: all."
)
@device_option()
@json_option()
def perplexity(
    model: str, text: tuple[str, ...], sentences: int | None, device: str, as_json: bool
) -> None:
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
        found = measure(resolved, text, sentences, step, place_of(device))
    click.echo(json.dumps(_content(found), indent=2) if as_json else _table(found))


def _content(found: Measured) -> dict[str, str | float]:
    """Return the JSON of a measurement."""
    names = ("forward", "backward", "both", "bits_per_word", "predictions")
    figures = {name: getattr(found.perplexity, name) for name in names}
    beside = {} if found.unigram is None else {"unigram": found.unigram}
    return {"run": found.model, **figures, **beside}


def _table(found: Measured) -> str:
    """Return two lines: the columns, and the figures below them."""
    both = found.perplexity
    columns = {"forward": both.forward, "backward": both.backward, "both": both.both}
    if found.unigram is not None:
        columns["unigram"] = found.unigram
    head = "".join(f"{column:>10}" for column in columns)
    figures = "".join(f"{figure:>10.2f}" for figure in columns.values())
    return f"{head}{'predictions':>14}\n{figures}{both.predictions:>14,}"
