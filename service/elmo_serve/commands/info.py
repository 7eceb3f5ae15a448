"""The command `elmo info`."""

from __future__ import annotations

import json

import click

from elmo_serve.commands.options import json_option, model_argument, resolve_model
from elmo_serve.commands.terminal import print_table


@click.command()
@model_argument
@json_option()
def info(model: str, as_json: bool) -> None:
    """Print name, format, revision and sizes of a model.

    MODEL is the path of a checkpoint, the folder of a training run, a built-in name or a published
    name, which is fetched if need be. Default: ELMO_MODEL, or english.

    \b
    Examples:
      $ elmo info english
      $ elmo info models/weights.hdf5 --json
    """
    from elmo_model.models.opening import open_model
    from elmo_model.network.config import flat

    elmo = open_model(resolve_model(model))
    config, origin = elmo.config, elmo.origin
    facts: dict[str, object] = {
        "name": origin.name,
        "format": origin.format,
        "revision": origin.revision,
        "tokenizer": origin.description.tokenizer,
        "language": origin.description.language,
        "layers": config.layers,
        "dimension": config.dimension,
        "parameters": config.parameter_count,
    }
    if (trained := origin.description.trained) is not None:
        facts |= {"trained.tokens": trained.tokens, "trained.perplexity": trained.perplexity}
    configuration = config.to_dict()
    if as_json:
        click.echo(json.dumps({**facts, "configuration": configuration}, indent=2))
        return
    rows = {**facts, **flat(configuration)}
    print_table([[key, _as_text(value)] for key, value in rows.items()])


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
