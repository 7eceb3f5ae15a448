"""The command `elmo fit`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from elmo_model.network.task import TASK_NAME, TASK_NAME_RULE
from elmo_model.text import tokenizers
from elmo_serve.commands.options import (
    MODEL_OR_SERVERS,
    WITH_SERVER,
    Number,
    api_key_option,
    device_option,
    model_of_server,
    model_option,
    precision_option,
    refuse_given,
    resolve_model,
    server_option,
    threads_option,
    tokenizer_option,
)
from elmo_serve.commands.terminal import fail, steps
from elmo_serve.files.connected import connected

if TYPE_CHECKING:
    import torch

    from elmo_client import Client
    from elmo_model.steps import OnStep
    from elmo_model.tasks.comparison import Comparison
    from elmo_model.tasks.fitter import FitOptions
    from elmo_model.tasks.source import LayerSource

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
    from elmo_model.tasks.fitter import FitOptions
    from elmo_serve.commands.fit_report import FittedTask, refuse_existing, table

    if not force:
        refuse_existing(name, out)
    options = FitOptions(**{key: values.pop(key) for key in _OPTIONS})
    with steps() as step:
        source, comparison = _fitted(options, step, **values)
    click.echo(table(comparison))  # before a folder that cannot be written to
    task, folder = FittedTask(name, options, comparison, source).write(out)
    click.echo(f"Wrote {task} and {folder}\nTo serve it, copy {task} into the server's ELMO_TASKS")


def _fitted(
    options: FitOptions,
    on_step: OnStep,
    *,
    model: str,
    device: str,
    precision: str,
    threads: int | None,
    server: str | None,
    api_key: str | None,
    **files: Any,
) -> tuple[LayerSource, Comparison]:
    """Fit a task on the layers of a model here, or of a server.

    Raises FitError, TextError, CheckpointError and ServerError.
    """
    from elmo_model.tasks.source import encoder_source
    from elmo_serve.models.in_process import place_of

    if server is None:
        on_step(f"Reading {model}")
        path, place = resolve_model(model), place_of(device)
        source = encoder_source(
            path, place, precision, layer_norm=options.layer_norm, threads=threads
        )
        return source, _compared(source, options, on_step, **files)
    with connected(server, api_key, model_of_server()) as client:
        source = _layers_of(client, threads)
        return source, _compared(source, options, on_step, **files)


def _compared(
    source: LayerSource,
    options: FitOptions,
    on_step: OnStep,
    *,
    train: Path,
    test: Path | None,
    limit: int | None,
    tokenizer: str | None,
    **reading: Any,
) -> Comparison:
    from elmo_model.tasks.comparison import compare
    from elmo_model.tasks.readers import Reading, read_parts
    from elmo_model.threads import using_threads

    tokenize = tokenizers.tokenizer(tokenizer or source.tokenizer, source.language)
    parts = read_parts(train, test, Reading(tokenize=tokenize, **reading), limit)
    with using_threads(source.threads):
        return compare(source.encode, *parts, options, on_step)


def _layers_of(client: Client, threads: int | None) -> LayerSource:
    """Return the source of the layers that a server computes, with bounded memory.

    The steps of the fit itself are so short that several threads gain little.
    """
    import torch

    from elmo_model.network.elmo import Origin
    from elmo_model.tasks.source import LayerSource

    info = client.info()

    def encode(sentences: Sequence[Sequence[str]]) -> Iterator[tuple[int, torch.Tensor]]:
        return enumerate(map(torch.from_numpy, client.stream(sentences, layers="all")))

    origin = Origin(info["model"], info["format"], info["revision"])
    return LayerSource(origin, info["tokenizer"], info["language"], encode, threads or 1)
