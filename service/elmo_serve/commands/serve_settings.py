"""The settings of `elmo serve`: an option for each, their checks, and the machine they fit."""

from __future__ import annotations

import difflib
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Final

import click

from elmo_serve.commands.terminal import tell
from elmo_serve.models import with_cache
from elmo_serve.neighbours.user_indexes import UserIndexes
from elmo_serve.settings import PREFIX, Settings, option, variable
from elmo_serve.settings.text import REMOVED, allowed, default, from_strings, without_removed
from elmo_serve.tasks.folder import open_folder
from elmo_serve.workers.devices import VISIBLE, Hardware

_KEY: Final = "ELMO_API_KEY"
"""The key that the commands send to a server. It is no setting, and no mistake."""


@functools.cache
def options() -> Sequence[click.Option]:
    """Return an option for each setting; those of removed settings are hidden."""
    found = [
        click.Option(
            [option(name)], envvar=variable(name), is_flag=False, flag_value="true", hidden=True
        )
        for name in REMOVED
    ]
    for name, field in Settings.model_fields.items():
        usual = default(name)
        # A flag also takes a value for one more release: `--offline true`.
        is_flag = field.annotation is bool
        found.append(
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
    return found


def checked(values: Mapping[str, str | None], given: Sequence[str]) -> tuple[Settings, Hardware]:
    """Return settings, strings by field name, and the hardware that they fit.

    `given` are the fields whose option is on the command line. Raises SettingsError for values,
    folders and devices that do not fit.
    """
    _warn_of_misspelt_variables()
    called = {name: option(name) for name in given}
    settings = from_strings(without_removed(values, called, tell), called)
    if settings.tasks is not None:
        open_folder(settings.tasks, called.get("tasks", variable("tasks")))
    if settings.index:
        UserIndexes.open(settings.index, called.get("index", variable("index")))
    hardware = Hardware.here(os.environ.get(VISIBLE))
    if settings.devices != "auto":
        hardware.check(settings.devices, called.get("devices", variable("devices")))
    return with_cache(settings), hardware


def _warn_of_misspelt_variables() -> None:
    known = [variable(name) for name in Settings.model_fields]
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in (*known, _KEY):
            # Only a near miss is named: Kubernetes sets ELMO_SERVICE_HOST and the like by itself.
            for meant in difflib.get_close_matches(name, known, n=1, cutoff=0.85):
                tell(f"{name} is no setting; did you mean {meant}?")
