"""The command `elmo study`."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from elmo_model.fitting.examples import FitError
from elmo_model.text_files import TextError
from elmo_model.word_vectors.source import WordVectorsError
from elmo_serve.commands.published import cache_options, model_option, resolve_model
from elmo_serve.commands.terminal import fail, steps

_SIZE = click.IntRange(min=1)


@click.command()
@click.argument("data", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@model_option()
@click.option(
    "--word-vectors",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Static vectors of the taggers. Default: no taggers.",
)
@click.option("--task", "tasks", multiple=True, help="A task of the study. Default: all of them.")
@click.option("--limit", type=_SIZE, help="Sentences drawn of each part. Default: all.")
@click.option("--tagger-limit", type=_SIZE, help="The same for the taggers. Default: all.")
@click.option("--seeds", type=_SIZE, default=3, show_default=True, help="Fits of each kind.")
def study(**values: Any) -> None:
    """Ask which layers tasks choose, and where a tagger needs ELMo.

    DATA is a folder of public evaluation sets, which docs/layers.md lists. Results, tables and
    pictures are written to the folder OUT, a file a part: the same command continues an interrupted
    study with the next part.

    \b
    Example:
      $ elmo study eval results --word-vectors static.bin
    """
    from elmo_model.checkpoints import CheckpointError
    from elmo_model.study.command import StudyCommand
    from elmo_model.study.command import study as run
    from elmo_model.study.evaluation_sets import StudyError
    from elmo_serve.model_cache import DownloadError
    from elmo_serve.settings import SettingsError

    try:
        values["model"] = resolve_model(values["model"])
        command = StudyCommand(cache=cache_options().cache, **values)
        with steps() as step:
            text = run(command, step)
    except SettingsError as error:
        fail(str(error), code=2)
    except (
        *(StudyError, FitError, WordVectorsError, CheckpointError, DownloadError, TextError),
        OSError,
    ) as error:
        fail(str(error), code=1)
    click.echo(text, nl=False)
