"""The command line `elmo`; each command has a file in `commands/`."""

from __future__ import annotations

import signal
import sys

import click

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
from elmo_serve.commands.removed import removed_command
from elmo_serve.commands.serve import serve
from elmo_serve.commands.tasks import tasks
from elmo_serve.commands.tokenize import tokenize
from elmo_serve.commands.train import train
from elmo_serve.commands.word_vectors import word_vectors


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
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
