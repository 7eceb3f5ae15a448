"""The command `elmo info`."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import json
from typing import Any

import click

from elmo_serve.commands.published import resolve_model
from elmo_serve.commands.terminal import fail


@click.command()
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def info(model: str, as_json: bool) -> None:
    """Print name, format, revision and sizes of a model.

    MODEL is the path of a checkpoint, the folder of a training run, a built-in name or a published
    name, which is fetched if need be.

    \b
    Examples:
      $ elmo info english
      $ elmo info models/weights.hdf5 --json
    """
    from elmo_model.checkpoints import CheckpointError
    from elmo_model.models.opening import describe_model

    model = resolve_model(model)
    try:
        config, origin, parameters = describe_model(model)
    except CheckpointError as error:
        fail(str(error), code=1)
    except OSError as error:
        fail(f"{model} cannot be read: {error.strerror or error}", code=1)
    facts = {
        "name": origin.name,
        "format": origin.format,
        "revision": origin.revision,
        "layers": config.layers,
        "dimension": config.dimension,
        "parameters": parameters,
    }
    configuration = config.to_dict()
    if as_json:
        click.echo(json.dumps({**facts, "configuration": configuration}, indent=2))
        return
    _print({**facts, **_flat(configuration)})


def _flat(configuration: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for part, values in configuration.items():
        if isinstance(values, dict):
            flat |= {f"{part}.{key}": value for key, value in values.items()}
        else:
            flat[part] = values
    return flat


def _print(facts: dict[str, Any]) -> None:
    width = max(map(len, facts))
    for key, value in facts.items():
        click.echo(f"{key:<{width}}  {_as_text(value)}")


def _as_text(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case list():
            return " ".join("x".join(map(str, pair)) for pair in value)
        case _:
            return str(value)
