"""Options that several commands share, with one spelling and one rule each.

The decorators go on the function of a command. Each one gives it the keyword argument that its
docstring names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from elmo_model.inference.precision import PRECISIONS
from elmo_model.text.tokenizers import TOKENIZERS, raw_note
from elmo_serve.commands.terminal import download_progress, fail, tell
from elmo_serve.files.inputs import input_format
from elmo_serve.models.download import locate

ORDER: Final = (
    *("model", "server", "api_key", "tokenizer", "device", "threads", "precision"),
    *("cache", "force", "as_json"),
)
"""The parameters of options that several commands have, in their order in every help. They follow
the options that only one command has."""

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_MODEL: Final = "english"
MODEL_OR_SERVERS: Final = (
    "Name or path of the model; with --server one of its models, or its first."
)

WITH_SERVER: Final = "has no effect with --server: leave it out"
"""The reason to refuse an option that only a computation in this process has."""

_ENVIRONMENT: Final = "ELMO_MODEL"


class Number(click.FloatRange):
    """A finite number within bounds: NaN and infinity pass those of click."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number.", param, ctx)
        return number


class PlainText(click.Path):
    """A text, or a pattern of texts, of a sentence a line.

    Files that another format's ending names are refused.
    """

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if (form := input_format(str(value))) != "plain":
            self.fail(f"{value} is {form} by its ending; expected a sentence a line.", param, ctx)
        return super().convert(value, param, ctx)


def tell_of_raw(text: Path) -> None:
    """Tell of a text of a sentence a line that is not tokenised."""
    from elmo_model.training.corpus import sentences_of

    if note := raw_note(sentences_of(text), "`elmo tokenize` splits them"):
        tell(f"{text}: {note}")


def sort_options(command: click.Command) -> None:
    """Bring the options of a command into the one order; arguments keep theirs, before them.

    A number with bounds is called a number in messages: click calls it an "integer range".
    """

    def place(each: click.Parameter) -> int:
        is_ordered = isinstance(each, click.Option) and each.name in ORDER
        return 1 + ORDER.index(str(each.name)) if is_ordered else 0

    command.params.sort(key=place)
    for each in command.params:
        each.type.name = each.type.name.removesuffix(" range")


def model_option(text: str = "Name or path of the model.") -> Callable[[Command], Command]:
    """Add --model (`model`): without it ELMO_MODEL, or the default model."""
    return click.option(
        "--model",
        "-m",
        envvar=_ENVIRONMENT,
        show_envvar=True,
        default=DEFAULT_MODEL,
        show_default=True,
        help=text,
    )


model_argument = click.argument("model", envvar=_ENVIRONMENT, default=DEFAULT_MODEL)
"""Adds the argument MODEL (`model`): without it ELMO_MODEL, or the default model."""


def model_of_server() -> str | None:
    """Return --model if the command line has it, the name of one of a server's models; else None.

    ELMO_MODEL and the default name models of this machine.
    """
    return click.get_current_context().params["model"] if is_given("model") else None


def is_given(name: str) -> bool:
    """Tell whether the command line has the option of this parameter."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def refuse_given(reason: str, *names: str) -> None:
    """End the command if the command line has an option of these parameters."""
    for flag in (name.replace("_", "-") for name in names if is_given(name)):
        fail(f"--{flag} {reason}", code=2)


def server_option(
    text: str = "Ask this server; without it, compute here.",
) -> Callable[[Command], Command]:
    """Add --server (`server`): the URL of a server, or None."""
    return click.option("--server", metavar="URL", help=text)


api_key_option = click.option(
    "--api-key", envvar="ELMO_API_KEY", show_envvar=True, help="A key of the server."
)
"""Adds --api-key (`api_key`): without it ELMO_API_KEY, or None."""


def device_option(text: str = "auto, cpu, cuda, cuda:1, ...") -> Callable[[Command], Command]:
    """Add --device (`device`): `auto` is the first CUDA device, or else the CPU."""
    return click.option("--device", default="auto", show_default=True, help=text)


threads_option = click.option(
    "--threads",
    type=click.IntRange(min=1),
    show_default="one or all cores, by a short trial",
    help="Threads of a CPU.",
)
"""Adds --threads (`threads`): None leaves the choice to a trial."""


def precision_option(text: str = "Precision of the weights.") -> Callable[[Command], Command]:
    """Add --precision (`precision`)."""
    return click.option(
        "--precision",
        type=click.Choice(PRECISIONS),
        default="float32",
        show_default=True,
        help=f"{text} int8: on a CPU with VNNI.",
    )


def tokenizer_option(
    text: str = "Splits text into tokens. Default: that of the model.", *further: str
) -> Callable[[Command], Command]:
    """Add --tokenizer (`tokenizer`): a name of `TOKENIZERS`, one of `further`, or None."""
    return click.option("--tokenizer", type=click.Choice([*further, *TOKENIZERS]), help=text)


def json_option(text: str = "Print one JSON object.") -> Callable[[Command], Command]:
    """Add --json (`as_json`)."""
    return click.option("--json", "as_json", is_flag=True, help=text)


cache_option = click.option(
    "--cache", help="Folder for models.", envvar="ELMO_CACHE", show_envvar=True
)
"""Adds --cache (`cache`): without it ELMO_CACHE, or None for the user's cache folder."""


def resolve_model(model: str) -> str:
    """Return a built-in name, the path of a published model, or a path, which may be missing.

    A published model is downloaded if the cache lacks it, with progress on the terminal. Raises
    DownloadError and SettingsError.
    """
    return locate(model, progress=download_progress)
