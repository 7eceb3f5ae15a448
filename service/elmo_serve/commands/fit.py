"""The command `elmo fit`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import click

from elmo_model.network.task import TASK_NAME, TASK_NAME_RULE
from elmo_serve.commands.options import (
    MODEL_OR_SERVERS,
    WITH_SERVER,
    Number,
    api_key_option,
    device_option,
    model_option,
    precision_option,
    refuse_given,
    server_option,
    threads_option,
    tokenizer_option,
)
from elmo_serve.commands.terminal import fail, steps

_OPTIONS: Final = ("seeds", "validation", "layer_norm", "dropout")

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command()
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(["token", "sentence"]),
    required=True,
    help="What has a label: each token, or each sentence.",
)
@click.option(
    "--label",
    help="Labels of tokens: a field of CoNLL-U, or a column from 0. Default: the last column.",
)
@click.option(
    "--column", type=click.IntRange(min=0), help="Column of the tokens, from 0. Default: 0."
)
@click.option("--train", type=_FILE, required=True, help="File of labelled examples.")
@click.option("--test", type=_FILE, help="File to score on. Default: the validation part.")
@click.option("--limit", type=click.IntRange(min=1), help="First training sentences to take.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder of the task file, the head and the report.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Fits from different seeds.",
)
@click.option(
    "--validation",
    type=Number(min=0, max=1, min_open=True, max_open=True),
    default=0.1,
    show_default=True,
    help="Share held out for early stopping.",
)
@click.option("--layer-norm", is_flag=True, help="Normalise each layer over its sentence first.")
@click.option(
    "--dropout",
    type=Number(min=0, max=1, max_open=True),
    default=0.0,
    show_default=True,
    help="Dropout on the mixed vectors.",
)
@model_option(MODEL_OR_SERVERS)
@tokenizer_option("Tokenizer of the texts of sentences. Default: that of the model.")
@device_option()
@precision_option()
@threads_option
@click.option("--force", is_flag=True, help="Replace a task of the same name.")
@server_option("Take the vectors from this server.")
@api_key_option
def fit(name: str, out: Path, force: bool, **values: Any) -> None:
    """Learn the layer weights of a task on frozen vectors.

    Writes NAME.json, a task file that `elmo serve` reads, and the folder NAME.fit with the head and
    the report. The table compares the learned mix with the average and with every layer alone.
    With --server the vectors come from that server, and the fit runs here. docs/tasks.md describes
    the files.

    \b
    Examples:
      $ elmo fit pos --kind token --label upos --train train.conllu --test test.conllu --out tasks
      $ elmo fit ner --kind token --train train.conll --test test.conll --out tasks
      $ elmo fit intent --kind sentence --train intents.tsv --out tasks
      $ ELMO_TASKS=tasks elmo serve
    """
    if not re.fullmatch(TASK_NAME, name):
        fail(f"the name of a task must be {TASK_NAME_RULE}; found {name!r}", code=2)
    if values["server"] is not None:
        refuse_given(WITH_SERVER, "device", "precision")
        refuse_given("needs the boundary tokens, which no server sends: leave it out", "layer_norm")
    from elmo_serve.commands import fit_task

    if not force:
        fit_task.refuse_existing(name, out)
    options = {key: values.pop(key) for key in _OPTIONS}
    with steps() as step:
        fitted = fit_task.fit(name, options, step, **values)
    click.echo(fit_task.table(fitted.comparison))  # before a folder that cannot be written to
    task, folder = fitted.write(out)
    click.echo(f"Wrote {task} and {folder}\nTo serve it, copy {task} into the server's ELMO_TASKS")
