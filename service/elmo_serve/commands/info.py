"""The command `elmo info`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from elmo_serve.commands.options import json_option, model_argument, resolve_model
from elmo_serve.commands.terminal import print_table

if TYPE_CHECKING:
    from elmo_model.network.elmo import ElmoNetwork


@click.command()
@model_argument
@click.option("--check", is_flag=True, help="Compute how far one rounding moves a vector.")
@json_option()
def info(model: str, check: bool, as_json: bool) -> None:
    """Print name, format, revision and sizes of a model.

    MODEL is the path of a checkpoint, the folder of a training run, a built-in name or a published
    name, which is fetched if need be. Default: ELMO_MODEL, or english.

    \b
    Examples:
      $ elmo info english --check
      $ elmo info models/weights.hdf5 --json
    """
    from elmo_model.models.opening import open_model
    from elmo_model.network.config import flat

    elmo = open_model(resolve_model(model))
    config, origin = elmo.config, elmo.origin
    facts = {
        "name": origin.name,
        "format": origin.format,
        "revision": origin.revision,
        "layers": config.layers,
        "dimension": config.dimension,
        "parameters": config.parameter_count,
    }
    if check:
        facts["rounding"] = _rounding(elmo)
    configuration = config.to_dict()
    if as_json:
        click.echo(json.dumps({**facts, "configuration": configuration}, indent=2))
        return
    rows = {**facts, **flat(configuration)}
    print_table([[key, _as_text(value)] for key, value in rows.items()])


def _rounding(elmo: ElmoNetwork) -> str:
    """Return the largest change of a value when the weights are rounded once, and its text."""
    from elmo_model.inference.stability import BAR, stability

    worst = max(stability(elmo, texts=2), key=lambda found: max(found.layers))
    moved = max(worst.layers)
    verdict = "stable" if moved <= BAR else f"amplified, over {BAR:.0e}: elmo evaluate --stability"
    return f"moves a value by up to {moved:.1e} ({worst.name}); {verdict}"


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
