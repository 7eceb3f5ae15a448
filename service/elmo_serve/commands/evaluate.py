"""The command `elmo evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from elmo_serve.commands.options import device_option, json_option, model_argument, refuse_given
from elmo_serve.commands.published import resolve_model
from elmo_serve.commands.terminal import steps

_FILE = click.Path(path_type=Path)


@click.command()
@model_argument()
@click.option("--pos-train", type=_FILE, help="CoNLL-U file that the tagger is trained on.")
@click.option("--pos-test", type=_FILE, help="CoNLL-U file that the tagger is tested on.")
@click.option(
    "--tags",
    type=click.Choice(["upos", "xpos"], case_sensitive=False),
    default="upos",
    show_default=True,
    help="Column of the CoNLL-U files.",
)
@click.option("--homographs-train", type=_FILE, help="Table of word senses to train on.")
@click.option("--homographs-test", type=_FILE, help="Table of word senses to test on.")
@click.option("--wic", type=_FILE, help="Table of words in pairs of sentences.")
@click.option("--senses", is_flag=True, help="30 ordinary words in built-in sentences; no files.")
@click.option(
    "--stability",
    is_flag=True,
    help="How far one rounding of the weights moves vectors of built-in texts; no files.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help="First sentences, texts, uses of a word, and pairs, but all of --senses. Default: all.",
)
@device_option()
@json_option()
def evaluate(model: str, device: str, **values: Any) -> None:
    """Score every layer of a model by probes on frozen vectors.

    MODEL is a path, a built-in name or a published name; by default ELMO_MODEL, or english. Give
    one test set or more: tagging (two CoNLL-U files), word senses (two tables), words in context
    (one table), or --senses or --stability, which need no files. docs/training.md describes
    the tables.

    \b
    Examples:
      $ elmo evaluate english --senses --stability
      $ elmo evaluate english --pos-train train.conllu --pos-test test.conllu
      $ elmo evaluate original --wic wic.tsv --json
    """
    from elmo_model.tasks.evaluation import command
    from elmo_serve.models.opening import place_of

    if values["pos_train"] is values["pos_test"] is None:
        refuse_given("has no effect without --pos-train: leave it out", "tags")
    options = command.EvaluateOptions(resolve_model(model), device=place_of(device), **values)
    with steps() as step:
        text = command.evaluate(options, step)
    click.echo(text)
