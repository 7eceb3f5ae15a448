"""The command `elmo fit`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from elmo_model.network.task import TASK_NAME, TASK_NAME_RULE
from elmo_model.steps import OnStep
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
    from elmo_model.tasks.command import FitCommand, FittedTask, LayerSource

_OPTIONS: Final = ("seeds", "validation", "layer_norm", "l2_weights", "dropout")

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
@model_option(MODEL_OR_SERVERS)
@tokenizer_option("Tokenizer of the column `text`. Default: that of the model.")
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
    "--l2-weights",
    type=Number(min=0),
    default=0.001,
    show_default=True,
    help="Penalty on the weights s.",
)
@click.option(
    "--dropout",
    type=Number(min=0, max=1, max_open=True),
    default=0.0,
    show_default=True,
    help="Dropout on the mixed vectors.",
)
@device_option()
@precision_option()
@threads_option
@click.option("--force", is_flag=True, help="Replace a task of the same name.")
@server_option("Take the vectors from this server.")
@api_key_option
def fit(name: str, api_key: str | None, **values: Any) -> None:
    """Learn the layer weights of a task on frozen vectors.

    Writes NAME.json, a task file that `elmo serve` reads, and the folder NAME.fit with the head and
    the report. The report compares the learned mix with the average and with every layer alone.
    With --server the vectors come from that server, and the fit runs here. docs/tasks.md describes
    the files.

    \b
    Examples:
      $ elmo fit pos --kind token --label upos --train train.conllu --test test.conllu --out tasks
      $ elmo fit intent --kind sentence --train train.csv --out tasks
      $ ELMO_TASKS=tasks elmo serve
      $ elmo fit intent --kind sentence --train train.csv --out tasks --server http://localhost:8000
    """
    if not re.fullmatch(TASK_NAME, name):
        fail(f"the name of a task must be {TASK_NAME_RULE}; found {name!r}", code=2)
    model, device, precision, threads = map(values.pop, ("model", "device", "precision", "threads"))
    out, force, server = (values.pop(key) for key in ("out", "force", "server"))
    options = {key: values.pop(key) for key in _OPTIONS}
    if server is not None:
        refuse_given(WITH_SERVER, "device", "precision")
        refuse_given("needs the boundary tokens, which no server sends: leave it out", "layer_norm")
    from elmo_model.tasks import command
    from elmo_model.tasks.fitter import FitOptions
    from elmo_serve.models.in_process import place_of

    if not force:
        command.refuse_existing(name, out)
    asked = command.FitCommand(name, options=FitOptions(**options), **values)
    with steps() as step:
        if server is not None:
            fitted = _fitted_with_server(asked, server, api_key, threads, step)
        else:
            step(f"Reading {model}")
            source = command.encoder_source(
                resolve_model(model),
                place_of(device),
                precision,
                layer_norm=options["layer_norm"],
                threads=threads,
            )
            fitted = command.fit(asked, source, step)
    click.echo(command.text(fitted.found))
    file, folder = fitted.write(out)
    click.echo(f"Wrote {file} and {folder}\nTo serve it, copy {file} into the server's ELMO_TASKS")


def _fitted_with_server(
    command: FitCommand,
    url: str,
    api_key: str | None,
    threads: int | None,
    on_step: OnStep,
) -> FittedTask:
    """Fit a task on the layers of a server.

    Raises FitError, TextError and ServerError.
    """
    from elmo_model.tasks.command import fit

    with connected(url, api_key, model_of_server()) as client:
        return fit(command, _layers_of(client, threads), on_step)


def _layers_of(client: Client, threads: int | None) -> LayerSource:
    """Return the source of the layers that a server computes, with bounded memory.

    The steps of the fit itself are so short that several threads gain little.
    """
    import torch

    from elmo_model.network.elmo import Origin
    from elmo_model.tasks.command import LayerSource

    info = client.info()

    def encode(sentences: Sequence[Sequence[str]]) -> Iterator[tuple[int, torch.Tensor]]:
        return enumerate(map(torch.from_numpy, client.stream(sentences, layers="all")))

    origin = Origin(info["model"], info["format"], info["revision"])
    return LayerSource(origin, info["tokenizer"], info["language"], encode, threads or 1)
