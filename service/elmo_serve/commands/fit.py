"""The command `elmo fit`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from elmo_model.network.task import TASK_NAME, TASK_NAME_RULE
from elmo_model.steps import OnStep
from elmo_model.tasks import report
from elmo_model.tasks.examples import Examples, FitError, Place
from elmo_model.tasks.readers import read_parts
from elmo_model.text.tokenizers import Tokenize, tokenizer
from elmo_serve.commands.options import (
    MODEL_OR_SERVERS,
    WITH_SERVER,
    api_key_option,
    device_option,
    model_of_server,
    model_option,
    precision_option,
    refuse_given,
    server_option,
    tokenizer_option,
)
from elmo_serve.commands.published import resolve_model
from elmo_serve.commands.terminal import fail, steps
from elmo_serve.commands.word_vectors import word_vector_map
from elmo_serve.files.connected import connected

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
    help="Static word vectors, appended to the mix. Default: none.",
)
@click.option(
    "--vectors",
    type=_FILE,
    help="HDF5 file of elmo embed --all with every sentence. Default: they are computed.",
)
@model_option(MODEL_OR_SERVERS)
@tokenizer_option("Tokenizer of the column `text`. Default: that of the model.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the task file, such as the task folder of a server. Required without --server.",
)
@click.option("--seeds", default=3, show_default=True, help="Fits from different seeds.")
@click.option(
    "--validation", default=0.1, show_default=True, help="Share held out for early stopping."
)
@click.option("--layer-norm", is_flag=True, help="Normalise each layer over its sentence first.")
@click.option("--l2-weights", default=0.001, show_default=True, help="Penalty on the weights s.")
@click.option("--dropout", default=0.0, show_default=True, help="Dropout on the mixed vectors.")
@device_option()
@precision_option()
@click.option("--force", is_flag=True, help="Replace a task of the same name.")
@server_option("Fit on this server, which then serves the task.")
@api_key_option()
def fit(name: str, server: str | None, api_key: str | None, **values: Any) -> None:
    """Learn the layer weights of a task on frozen vectors.

    Writes NAME.json, a task file that `elmo serve` reads, and the folder NAME.fit with the head and
    the report. The report compares the learned mix with the average and with every layer alone.
    docs/tasks.md describes the files.

    \b
    Examples:
      $ elmo fit pos --kind token --label upos --train train.conllu --test test.conllu --out tasks
      $ elmo fit intent --kind sentence --train train.csv --out tasks
      $ ELMO_TASKS=tasks elmo serve
      $ elmo fit intent --kind sentence --train train.csv --server http://localhost:8000
    """
    if not re.fullmatch(TASK_NAME, name):
        fail(f"the name of a task must be {TASK_NAME_RULE}; found {name!r}", code=2)
    own = {key: values.pop(key) for key in ("seeds", "validation", "layer_norm", "l2_weights")}
    own["dropout"] = values.pop("dropout")
    if server is not None:
        refuse_given(WITH_SERVER, "out", "device", "precision", "vectors", "word_vectors")
        with steps() as step:
            click.echo(_fitted_on_server(server, api_key, name, own, values, step))
        return
    if values["out"] is None:
        fail("--out or --server is required: where the task is kept", code=2)
    from elmo_model.tasks import command
    from elmo_serve.models.opening import place_of

    options = command.FitOptions(**own)
    values |= {"model": resolve_model(values["model"]), "device": place_of(values["device"])}
    if values["word_vectors"] is not None:
        values["word_vectors"] = word_vector_map(values["word_vectors"])
    with steps() as step:
        text = command.fit(command.FitCommand(name, options=options, **values), step)
    click.echo(text)


def _fitted_on_server(
    url: str,
    api_key: str | None,
    name: str,
    options: dict[str, Any],
    values: dict[str, Any],
    on_step: OnStep,
) -> str:
    """Fit a task on a server, and return its scores for the terminal.

    The text of files is split into tokens here. An interruption cancels the job. Raises FitError,
    TextError and ServerError.
    """
    kind = values["kind"]
    with connected(url, api_key, model_of_server()) as client:
        if not values["force"] and name in {task.name for task in client.tasks()}:
            raise FitError(f"{url} has a task {name}; --force replaces it")
        info = client.info()
        split = tokenizer(values["tokenizer"] or info["tokenizer"], info["language"])
        examples = list(_bodies(values, split))
        job = client.fit(name, examples, kind=kind, **options)
        title = f"Fitting {name} on {url}, job {job.id}"
        try:
            scores = job.wait(lambda part: on_step(title, round(100 * part), 100, "")).scores
        except KeyboardInterrupt:
            job.cancel()
            raise
    return f"{report.text(scores)}\n{url} serves task {name}"


def _bodies(values: dict[str, Any], split: Tokenize) -> Iterator[dict[str, Any]]:
    """Yield the examples of --train, and those of --test as such. Raises FitError, TextError."""
    columns = values["kind"], values["label"]
    learned, scored = read_parts(values["train"], values["test"], *columns, split, values["limit"])
    yield from example_bodies(learned)
    if scored is not None:
        yield from ({**example, "test": True} for example in example_bodies(scored))


def example_bodies(examples: Examples) -> Iterator[dict[str, Any]]:
    """Yield examples as the members of `POST /tasks/{name}/fit`."""
    pairs = zip(examples.places, examples.labels, strict=True)
    if examples.kind == "pair":
        for (first, second), label in pairs:
            sides = [_side(examples, first), _side(examples, second)]
            yield {"pair": sides, "label": label}
        return
    for number, group in groupby(pairs, key=lambda pair: pair[0][0].sentence):
        members = list(group)
        places = [place.token for (place,), _ in members]
        tokens = list(examples.sentences[number])
        if places == list(range(len(tokens))):
            yield {"tokens": tokens, "labels": [label for _, label in members]}
            continue
        for (place,), label in members:
            yield {**_side(examples, place), "label": label}


def _side(examples: Examples, place: Place) -> dict[str, Any]:
    side: dict[str, Any] = {"tokens": list(examples.sentences[place.sentence])}
    if place.token is not None:
        side["token"] = place.token
    return side
