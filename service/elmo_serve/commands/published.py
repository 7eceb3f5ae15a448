"""Model names on the command line: built-in and published names become paths or built-in names.

One rule for every command: a name, in any case, wins over a file or folder of that name in the
working folder. A note on stderr mentions the path if both exist; `./small` is always the path.
"""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from elmo_model.models.catalogue import BUILT_IN, canonical, path_fault, published_model
from elmo_serve.commands.terminal import download_progress, fail

if TYPE_CHECKING:
    from elmo_serve.model_cache import CacheSettings
    from elmo_serve.settings import Settings

_Command = TypeVar("_Command", bound=Callable[..., Any])


DEFAULT_MODEL: Final = "english"


def model_option(text: str = "Name or path of the model.") -> Callable[[_Command], _Command]:
    """Return the option --model of a command: without it ELMO_MODEL, or the default model."""
    return click.option(
        "--model",
        "-m",
        envvar="ELMO_MODEL",
        show_envvar=True,
        default=DEFAULT_MODEL,
        show_default=True,
        help=text,
    )


def model_of_server() -> str | None:
    """Return --model if the command line has it, the name of one of a server's models; else None.

    ELMO_MODEL and the default name models of this machine.
    """
    context = click.get_current_context()
    is_given = context.get_parameter_source("model") is ParameterSource.COMMANDLINE
    return context.params["model"] if is_given else None


class _MissingError(Exception):
    """A model does not exist, or cannot be had."""


def resolve_model(model: str) -> str:
    """Return a built-in name, the folder of a published model, or an existing path.

    A published model is downloaded if the cache lacks it. Ends the command with one line where
    the model does not exist or cannot be had.
    """
    from elmo_serve.settings import SettingsError

    try:
        return _resolve(model, cache_options)
    except _MissingError as error:
        fail(str(error), code=1)
    except SettingsError as error:
        fail(str(error), code=2)


def with_resolved_models(settings: Settings) -> Settings:
    """Return settings whose models are resolved as by `resolve_model`.

    One of several models that does not exist or cannot be had is kept with its `fault`, for the
    others are served all the same. The command ends where none is left.
    """
    from elmo_serve.model_cache import cache_settings

    specs = []
    for spec in settings.specs:
        try:
            # The cache folder is looked up for published names alone: a user may have no home.
            source = _resolve(spec.source, lambda: cache_settings(settings))
            specs.append(replace(spec, source=source))
        except _MissingError as error:
            specs.append(replace(spec, fault=str(error)))
    faults = [spec.fault for spec in specs if spec.fault]
    for fault in faults[: -1 if len(faults) == len(specs) else None]:
        click.echo(f"elmo: {fault}", err=True)
    if len(faults) == len(specs):
        fail(faults[-1], code=1)
    return settings.model_copy(update={"models": tuple(specs)})


def cache_options(**options: str | None) -> CacheSettings:
    """Return the cache settings of the environment, replaced by those given as options.

    Raises SettingsError for a value that is not allowed.
    """
    from elmo_serve.model_cache import cache_settings
    from elmo_serve.settings import option, variable
    from elmo_serve.settings_text import from_strings

    values = {name: os.environ.get(variable(name)) for name in ("cache", "mirror", "offline")}
    given = {name: value for name, value in options.items() if value is not None}
    called = {name: option(name) for name in given if os.environ.get(variable(name)) != given[name]}
    return cache_settings(from_strings({**values, **given}, called))


def _resolve(model: str, settings: Callable[[], CacheSettings]) -> str:
    if canonical(model) in BUILT_IN:
        _note_path_of_this_name(model, "built-in")
        return canonical(model)
    if published_model(model) is None:
        if (fault := path_fault(model)) is not None:
            raise _MissingError(fault)
        return model
    _note_path_of_this_name(model, "published")
    return _downloaded(model, settings)


def _note_path_of_this_name(name: str, kind: str) -> None:
    # Unlike `Path.exists`, False in a working folder that this user may not search.
    if os.path.exists(name):  # noqa: PTH110
        what = "folder" if os.path.isdir(name) else "file"  # noqa: PTH112
        click.echo(
            f"elmo: {name} names the {kind} model; write ./{name} for the {what} of this name",
            err=True,
        )


def _downloaded(model: str, settings: Callable[[], CacheSettings]) -> str:
    from elmo_serve.model_cache import DownloadError, locate

    try:
        with download_progress() as on_progress:
            return locate(model, settings(), on_progress)
    except DownloadError as error:
        raise _MissingError(str(error)) from error
