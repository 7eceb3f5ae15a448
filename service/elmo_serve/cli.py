"""The command line `elmo`; each command has a file in `commands/`."""

from __future__ import annotations

import io
import signal
import sys
import warnings
from typing import Any, Final

import click

from elmo_model.errors import ElmoError
from elmo_serve.commands.convert import convert
from elmo_serve.commands.embed import embed
from elmo_serve.commands.fit import fit
from elmo_serve.commands.index import index
from elmo_serve.commands.info import info
from elmo_serve.commands.look import look
from elmo_serve.commands.models import download, models
from elmo_serve.commands.options import sort_options
from elmo_serve.commands.perplexity import perplexity
from elmo_serve.commands.score import score
from elmo_serve.commands.serve import serve
from elmo_serve.commands.tasks import tasks
from elmo_serve.commands.terminal import fail, tell
from elmo_serve.commands.tokenize import tokenize
from elmo_serve.commands.train import train
from elmo_serve.errors import ServiceError

SECTIONS: Final = {
    "Vectors": (embed, look, tokenize),
    "Server": (serve, index),
    "Models": (models, download, info, convert),
    "Tasks": (fit, tasks),
    "Training": (train, perplexity, score),
}
"""The commands as the help lists them."""

_FIRST_STEPS: Final = """\
$ elmo look "The river bank." "A bank lends." --word bank   compare two uses of a word
$ elmo embed sentences.txt vectors.npz --top                write the vectors of a text
$ elmo serve                                                start a server, with a page to try
$ elmo models                                               list the models that have names
$ elmo --help                                               list all commands"""


class Commands(click.Group):
    """The commands of `elmo`, and the one place where errors meant for a user become a line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their sections."""
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                listed = [(str(each.name), each.get_short_help_str(80)) for each in commands]
                formatter.write_dl(listed, col_max=12, col_spacing=4)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; end it with a line and an exit code where the input does not fit."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *_, **__: tell(str(message))
                return super().invoke(ctx)
        except BrokenPipeError:
            raise  # click ends the command in silence, as for `elmo models | head -1`
        except ElmoError as error:
            *others, last = str(error).splitlines() or [""]
            for line in others:
                tell(line)
            fail(last, code=error.exit_code)
        except ServiceError as error:
            fail(str(error), code=1)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            fail(f"{place}{error.strerror or error}", code=1)
        except KeyboardInterrupt as error:
            fail(str(error) or "interrupted", code=130)


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(None, "-V", "--version", package_name="elmo-serve", prog_name="elmo")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Serve, embed, train and convert ELMo models."""
    # Process 1 of a container has no default action for SIGTERM. One that comes before the command
    # has handlers of its own would be lost.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may lack a character of the text
            stream.reconfigure(errors="backslashreplace")
    if ctx.invoked_subcommand is None:
        click.echo(_FIRST_STEPS)


for _section in SECTIONS.values():
    for _command in _section:
        sort_options(_command)
        main.add_command(_command)
