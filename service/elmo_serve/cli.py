"""The command line `elmo`; each command has a file in `commands/`."""

from __future__ import annotations

import signal
import sys
from typing import Any

import click

from elmo_model.errors import ElmoError
from elmo_serve.commands.bench import bench
from elmo_serve.commands.convert import convert
from elmo_serve.commands.download import download
from elmo_serve.commands.embed import embed
from elmo_serve.commands.evaluate import evaluate
from elmo_serve.commands.fit import fit
from elmo_serve.commands.index import index
from elmo_serve.commands.info import info
from elmo_serve.commands.look import look
from elmo_serve.commands.models import models
from elmo_serve.commands.perplexity import perplexity
from elmo_serve.commands.removed import removed_command, with_new_name
from elmo_serve.commands.serve import serve
from elmo_serve.commands.tasks import tasks
from elmo_serve.commands.terminal import fail, tell
from elmo_serve.commands.tokenize import tokenize
from elmo_serve.commands.train import train
from elmo_serve.commands.word_vectors import word_vectors
from elmo_serve.errors import ServiceError


class Commands(click.Group):
    """The commands of `elmo`, and the one place where errors meant for a user become a line."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; end it with a line and an exit code where the input does not fit."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # click ends the command in silence, as for `elmo models | head -1`
        except ElmoError as error:
            *others, last = error.lines
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return a command and its arguments, with renamed options by their names of today."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, [with_new_name(name or "", each) for each in rest]


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="elmo-serve", prog_name="elmo")
def main() -> None:
    """Serve, embed, train, evaluate and convert ELMo models."""
    # Process 1 of a container has no default action for SIGTERM. One that comes before the command
    # has handlers of its own would be lost.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


for command in (
    bench,
    convert,
    download,
    embed,
    evaluate,
    fit,
    index,
    info,
    look,
    models,
    perplexity,
    serve,
    tasks,
    tokenize,
    train,
    word_vectors,
):
    main.add_command(command)

main.add_command(
    removed_command("plan", "`elmo bench URL --rate N` says how many servers a load needs")
)
main.add_command(
    removed_command("study", "`python -m benchmarks.study`, in a checkout, asks the same questions")
)
