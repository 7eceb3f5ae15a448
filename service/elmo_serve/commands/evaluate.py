"""The command `elmo evaluate`."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

from pathlib import Path

import click

from elmo_serve.commands.terminal import fail, steps


@click.command()
@click.argument("model")
@click.option("--pos-train", type=click.Path(path_type=Path), help="CoNLL-U to fit the probe on.")
@click.option("--pos-test", type=click.Path(path_type=Path), help="CoNLL-U to score it on.")
@click.option("--tags", default="upos", show_default=True, help="upos or xpos.")
@click.option("--homographs-train", type=click.Path(path_type=Path), help="Senses to learn.")
@click.option("--homographs-test", type=click.Path(path_type=Path), help="Senses to tell.")
@click.option("--wic", type=click.Path(path_type=Path), help="Pairs of a word in two sentences.")
@click.option("--senses", is_flag=True, help="30 ordinary words in sentences that come along.")
@click.option("--limit", type=int, help="First sentences, uses of a word, and pairs that count.")
@click.option("--device", help="cpu or cuda; cuda where there is one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def evaluate(model: str, **values: object) -> None:
    """Score every layer of MODEL, a path or a built-in name, by probes on frozen vectors."""
    from elmo_model.evaluation.command import CommandError, EvaluateOptions
    from elmo_model.evaluation.command import evaluate as run

    try:
        with steps() as step:
            text = run(EvaluateOptions(model, **values), step)  # type: ignore[arg-type]
    except CommandError as error:
        fail(str(error), code=1)
    click.echo(text)
