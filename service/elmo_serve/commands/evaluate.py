"""The command `elmo evaluate`."""

from __future__ import annotations

from typing import Any

import click

from elmo_serve.commands.options import (
    device_option,
    json_option,
    model_argument,
    resolve_model,
)
from elmo_serve.commands.terminal import steps


@click.command()
@model_argument
@click.option("--senses", is_flag=True, help="30 ordinary words in built-in sentences.")
@click.option(
    "--stability",
    is_flag=True,
    help="How far one rounding of the weights moves vectors of built-in texts.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Texts of every kind of --stability.",
)
@device_option()
@json_option()
def evaluate(model: str, device: str, **values: Any) -> None:
    """Measure every layer of a model on built-in sentences and texts.

    MODEL is a path, a built-in name or a published name; by default ELMO_MODEL, or english. Without
    --senses and --stability both are measured. docs/training.md describes the tables.

    \b
    Examples:
      $ elmo evaluate english
      $ elmo evaluate original --stability --limit 3
      $ elmo evaluate runs/english/model.safetensors --senses --json
    """
    from elmo_model.tasks import evaluate as evaluation
    from elmo_serve.models.in_process import place_of

    options = evaluation.EvaluateOptions(resolve_model(model), device=place_of(device), **values)
    with steps() as step:
        text = evaluation.evaluate(options, step)
    click.echo(text)
