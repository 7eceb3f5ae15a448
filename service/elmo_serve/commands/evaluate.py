"""The command `elmo evaluate`."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from elmo_model.evaluation.score import EvaluationError
from elmo_model.fitting.examples import FitError
from elmo_model.text_files import TextError
from elmo_serve.commands.published import resolve_model
from elmo_serve.commands.terminal import fail, steps

_FILE = click.Path(path_type=Path)


@click.command()
@click.argument("model")
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
    "--limit",
    type=click.IntRange(min=1),
    help="First sentences, uses of a word, and pairs to take. Default: all.",
)
@click.option("--device", help="cpu or cuda. Default: cuda if there is one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def evaluate(model: str, **values: Any) -> None:
    """Score every layer of a model by probes on frozen vectors.

    MODEL is a path, a built-in name or a published name. Give one test set or more: tagging (two
    CoNLL-U files), word senses (two tables), words in context (one table), or --senses, which needs
    no files. docs/training.md describes the tables.

    \b
    Examples:
      $ elmo evaluate english --senses
      $ elmo evaluate english --pos-train train.conllu --pos-test test.conllu
      $ elmo evaluate original --wic wic.tsv --json
    """
    from elmo_model.checkpoints import CheckpointError
    from elmo_model.evaluation.command import EvaluateOptions
    from elmo_model.evaluation.command import evaluate as run

    try:
        options = EvaluateOptions(resolve_model(model), **values)
        with steps() as step:
            text = run(options, step)
    except (CheckpointError, EvaluationError, FitError, TextError) as error:
        fail(str(error), code=1)
    click.echo(text)
