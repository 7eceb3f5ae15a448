"""The command `elmo fit`."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from elmo_model.fitting.examples import FitError
from elmo_model.precision import PRECISIONS
from elmo_model.text_files import TextError
from elmo_model.tokenizers import TOKENIZERS
from elmo_serve.commands.published import model_of_server, model_option, resolve_model
from elmo_serve.commands.terminal import fail, steps
from elmo_serve.commands.word_vector_map import word_vector_map

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command()
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(["token", "sentence", "pair"]),
    required=True,
    help="What has a label: each token, each sentence, or each pair of sentences.",
)
@click.option("--label", default="label", show_default=True, help="Column that holds the labels.")
@click.option("--train", type=_FILE, required=True, help="File of labelled examples.")
@click.option("--test", type=_FILE, help="File to score on. Default: the validation part.")
@click.option("--limit", type=click.IntRange(min=1), help="First training sentences to take.")
@click.option(
    "--word-vectors",
    type=_FILE,
    help="Static word vectors that the head sees behind the mix. Default: none.",
)
@click.option(
    "--vectors",
    type=_FILE,
    help="HDF5 file of elmo embed --all with every sentence. Default: they are computed.",
)
@model_option("Name or path of the model; with --server one of its models, or its first.")
@click.option(
    "--tokenizer",
    type=click.Choice(list(TOKENIZERS)),
    help="Tokenizer of the column `text`. Default: that of the model.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the task file, such as the task folder of a server. Required without --server.",
)
@click.option("--seeds", default=3, show_default=True, help="Fits from different seeds.")
@click.option("--validation", default=0.1, show_default=True, help="Part that decides the end.")
@click.option("--layer-norm", is_flag=True, help="Normalise each layer over its sentence first.")
@click.option("--l2-weights", default=0.001, show_default=True, help="Penalty on the weights s.")
@click.option("--dropout", default=0.0, show_default=True, help="Dropout on the mixed vectors.")
@click.option(
    "--precision",
    type=click.Choice(list(PRECISIONS)),
    default="float32",
    show_default=True,
    help="Precision of the network.",
)
@click.option("--force", is_flag=True, help="Replace a task of the same name.")
@click.option("--server", metavar="URL", help="Fit on this server, which then serves the task.")
@click.option("--api-key", envvar="ELMO_API_KEY", show_envvar=True, help="A key of the server.")
def fit(name: str, server: str | None, api_key: str | None, **values: Any) -> None:
    """Learn the layer weights of a task on frozen vectors.

    Writes NAME.json, a task file that `elmo serve` reads, and the folder NAME.fit with the head,
    the report and a picture of the weights. The report compares the learned mix with the average
    and with every layer alone. docs/tasks.md describes the files.

    \b
    Examples:
      $ elmo fit pos --kind token --label upos --train train.conllu --test test.conllu --out tasks
      $ elmo fit intent --kind sentence --train train.csv --out tasks
      $ ELMO_TASKS=tasks elmo serve
      $ elmo fit intent --kind sentence --train train.csv --server http://localhost:8000
    """
    from elmo_model.checkpoints import CheckpointError
    from elmo_model.fitting.command import FitCommand
    from elmo_model.fitting.command import fit as run
    from elmo_model.fitting.fitter import FitOptions
    from elmo_serve.task_schema import TASK_NAME, TASK_NAME_RULE

    if not re.fullmatch(TASK_NAME, name):
        fail(f"the name of a task must be {TASK_NAME_RULE}; found {name!r}", code=2)

    own = {key: values.pop(key) for key in ("seeds", "validation", "layer_norm", "l2_weights")}
    own["dropout"] = values.pop("dropout")
    if server is not None:
        values["model"] = model_of_server()
        _fit_on_server(server, api_key, name, own, values)
        return
    if values["out"] is None:
        fail("--out or --server is required: where the task is kept", code=2)
    try:
        options = FitOptions(**own)
        values["model"] = resolve_model(values["model"])
        if values["word_vectors"] is not None:
            values["word_vectors"] = word_vector_map(values["word_vectors"])
        with steps() as step:
            text = run(FitCommand(name, options=options, **values), step)
    except (FitError, CheckpointError, TextError, OSError) as error:
        fail(str(error), code=1)
    click.echo(text)


def _fit_on_server(
    url: str, api_key: str | None, name: str, options: dict[str, Any], values: dict[str, Any]
) -> None:
    from elmo_client import ElmoError
    from elmo_serve.commands.fit_on_server import fit as run

    context = click.get_current_context()
    for option in ("out", "precision", "force", "vectors", "word_vectors"):
        if context.get_parameter_source(option) is not ParameterSource.DEFAULT:
            fail(f"--{option} has no effect with --server, which keeps the task itself", code=2)
        values.pop(option)
    values["split"] = values.pop("tokenizer")
    try:
        with steps() as step:
            text = run(url, api_key, name, options=options, on_step=step, **values)
    except (FitError, TextError, ElmoError, OSError) as error:
        fail(str(error), code=1)
    click.echo(text)
