"""The command `elmo serve`: every setting is one of its options."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import difflib
import functools
import os
from collections.abc import Sequence
from typing import Final

import click
from click.core import ParameterSource

from elmo_serve.commands.published import with_resolved_models
from elmo_serve.commands.terminal import fail
from elmo_serve.commands.word_vector_map import with_word_vectors

_KEY: Final = "ELMO_API_KEY"
"""The key that the commands send to a server. It is no setting, and no mistake."""


class _SettingsCommand(click.Command):
    """A command with one option per field of Settings, made when they are asked for."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*_settings_options(), *super().get_params(ctx)]


@click.command(cls=_SettingsCommand)
@click.pass_context
def serve(ctx: click.Context, /, **values: str | None) -> None:
    """Serve a model over HTTP.

    Each option is also an environment variable; an option wins over its variable, and an empty
    variable counts as unset.

    \b
    Examples:
      $ elmo serve --port 9000
      $ elmo serve --models english,original --devices cuda:0,cuda:1
      $ ELMO_MODEL=model.safetensors ELMO_TASKS=tasks elmo serve
    """
    from elmo_serve.settings import SettingsError, option, variable
    from elmo_serve.settings_text import from_strings, without_removed

    _warn_of_misspelt_variables()
    spoken = {
        name: option(name)
        for name in values
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    try:
        settings = from_strings(without_removed(values, spoken, _tell), spoken)
        if settings.tasks is not None:
            from elmo_serve.task_folder import open_folder

            open_folder(settings.tasks, spoken.get("tasks", variable("tasks")))
        if settings.index:
            from elmo_serve.neighbours.user_indexes import UserIndexes

            UserIndexes.open(settings.index, spoken.get("index", variable("index")))
        from elmo_serve.http.server import serve as run
        from elmo_serve.model_cache import with_cache
        from elmo_serve.workers.devices import VISIBLE, Hardware

        hardware = Hardware.here(os.environ.get(VISIBLE))
        if settings.devices != "auto":
            hardware.check(settings.devices, spoken.get("devices", variable("devices")))

        settings = with_word_vectors(with_resolved_models(with_cache(settings)))
        code = run(settings, hardware)
    except SettingsError as error:
        for refusal in error.refusals[:-1]:
            _tell(refusal)
        fail(error.refusals[-1], code=2)
    ctx.exit(code)


@functools.cache
def _settings_options() -> Sequence[click.Option]:
    from elmo_serve.settings import Settings, option, variable
    from elmo_serve.settings_text import REMOVED, allowed, default

    options = [
        click.Option(
            [option(name)], envvar=variable(name), is_flag=False, flag_value="true", hidden=True
        )
        for name in REMOVED
    ]
    for name, field in Settings.model_fields.items():
        usual = default(name)
        # A flag also takes a value for one more release: `--offline true`.
        is_flag = field.annotation is bool
        options.append(
            click.Option(
                [option(name)],
                envvar=variable(name),
                show_envvar=True,
                is_flag=False,
                flag_value="true" if is_flag else None,
                metavar="[VALUE]" if is_flag else "VALUE",
                help=f"{field.description} Allowed: {allowed(name)}."
                + (f" Default: {usual}." if usual is not None else ""),
            )
        )
    return options


def _warn_of_misspelt_variables() -> None:
    from elmo_serve.settings import PREFIX, Settings, variable

    known = [variable(name) for name in Settings.model_fields]
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in (*known, _KEY):
            # Only a near miss is named: Kubernetes sets ELMO_SERVICE_HOST and the like by itself.
            for meant in difflib.get_close_matches(name, known, n=1, cutoff=0.85):
                _tell(f"{name} is no setting; did you mean {meant}?")


def _tell(line: str) -> None:
    click.echo(f"elmo: {line}", err=True)
