"""The command line, `elmo`: its commands are in `service/commands`, one a file."""

from __future__ import annotations

import signal
import sys

import click

from elmo_serve.commands.convert import convert
from elmo_serve.commands.download import download
from elmo_serve.commands.embed import embed
from elmo_serve.commands.evaluate import evaluate
from elmo_serve.commands.fit import fit
from elmo_serve.commands.info import info
from elmo_serve.commands.perplexity import perplexity
from elmo_serve.commands.serve import serve
from elmo_serve.commands.tasks import tasks
from elmo_serve.commands.train import train

# As process 1 a server has no default action for SIGTERM, and one that comes while modules are
# still imported would be lost.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="elmo-serve", prog_name="elmo")
def main() -> None:
    """ELMo vectors over HTTP, and what belongs to it."""


for command in (convert, download, embed, evaluate, fit, info, perplexity, serve, tasks, train):
    main.add_command(command)
