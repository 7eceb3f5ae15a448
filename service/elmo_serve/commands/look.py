"""The command `elmo look`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import click
import orjson

from elmo_serve.commands.options import (
    MODEL_OR_SERVERS,
    WITH_SERVER,
    api_key_option,
    device_option,
    json_option,
    model_of_server,
    model_option,
    refuse_given,
    resolve_model,
    server_option,
    tokenizer_option,
)
from elmo_serve.commands.server import connected
from elmo_serve.commands.terminal import print_table, steps

_PATIENCE_SECONDS = 5.0


@click.command()
@click.argument("texts", nargs=-1, required=True)
@click.option("--word", help="Compare the uses of this word. Default: the sentences.")
@model_option(MODEL_OR_SERVERS)
@server_option()
@api_key_option
@tokenizer_option()
@click.option("--raw", is_flag=True, help="Do not subtract the mean of each layer.")
@device_option()
@json_option()
def look(texts: tuple[str, ...], word: str | None, raw: bool, **options: Any) -> None:
    """Show how similar the uses of a word are, by layer.

    TEXTS are sentences. The table has the cosine of each pair of uses in every layer and of the
    means of the layers. All vectors of a layer share a common part, so the mean of each layer
    is subtracted first; --raw leaves it in.

    \b
    Examples:
      $ elmo look "The bank of the river" "The bank gave a loan" --word bank
      $ elmo look "It rains." "It pours." --server http://localhost:8000
    """
    from elmo_serve import look as uses
    from elmo_serve.models.in_process import open_network

    tokenizer, url, key = options["tokenizer"], options["server"], options["api_key"]
    with steps() as step, ExitStack() as stack:
        if url is None:
            model = resolve_model(options["model"])
            network = open_network(model, device=options["device"])
            source = uses.source_of_model(network, tokenizer)
        else:
            refuse_given(WITH_SERVER, "device")
            server = connected(url, key, model_of_server(), patience_seconds=_PATIENCE_SECONDS)
            source = uses.source_of_server(stack.enter_context(server), tokenizer)
        step("Comparing")
        found = uses.look(source, texts, word, centred=not raw)
    if options["as_json"]:
        click.echo(orjson.dumps(found.as_json(), option=orjson.OPT_INDENT_2))
    else:
        click.echo("\n".join([found.title, "", *found.names, ""]))
        print_table(uses.rows(found))
