"""The command `elmo serve`: every setting is one of its options."""

from __future__ import annotations

import os
from typing import Any

import click

from elmo_model.system import let_threads_sleep
from elmo_serve.commands.options import is_given

_OF_OTHERS = ("PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir")
"""Variables for other programs: prometheus_client would keep its numbers in files of that folder
and continue those of an earlier process."""


class _SettingsCommand(click.Command):
    """A command with one option per field of Settings, made when they are asked for."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        for name in _OF_OTHERS:  # before prometheus_client is imported
            os.environ.pop(name, None)
        return super().make_context(*arguments, **options)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        from elmo_serve.commands import serve_settings

        return [*serve_settings.options(), *super().get_params(ctx)]


@click.command(cls=_SettingsCommand)
@click.pass_context
def serve(ctx: click.Context, /, **values: str | None) -> None:
    """Serve a model over HTTP.

    Each option is also an environment variable; an option wins over its variable. An empty variable
    counts as unset, an empty option is refused. --offline alone means true.

    \b
    Examples:
      $ elmo serve --port 9000
      $ elmo serve --models english,original --device cuda:0,cuda:1
      $ ELMO_MODEL=model.safetensors ELMO_TASKS=tasks elmo serve
    """
    from elmo_serve.commands import serve_settings
    from elmo_serve.http.server import serve as run

    let_threads_sleep(os.environ)
    settings, hardware = serve_settings.checked(values, [*filter(is_given, values)])
    # The folder of the start may be removed, and children would import modules from it.
    os.chdir("/")
    ctx.exit(run(settings, hardware, os.environ))
