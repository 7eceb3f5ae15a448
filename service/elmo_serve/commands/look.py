"""The command `elmo look`."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from elmo_model.atomic_files import write_bytes
from elmo_model.tokenizers import TOKENIZERS, TokenizeError
from elmo_serve.commands.published import model_of_server, model_option, resolve_model
from elmo_serve.commands.terminal import fail, steps

if TYPE_CHECKING:
    from elmo_serve.look.sources import Source


@click.command()
@click.argument("texts", nargs=-1, required=True)
@click.option("--word", help="Compare the uses of this word. Default: the sentences.")
@model_option("Name or path of the model; with --server one of its models, or its first.")
@click.option("--server", metavar="URL", help="Ask this server; without it, compute here.")
@click.option(
    "--api-key", "--key", envvar="ELMO_API_KEY", show_envvar=True, help="A key of the server."
)
@click.option(
    "--tokenizer", type=click.Choice(list(TOKENIZERS)), help="Default: that of the model."
)
@click.option("--raw", is_flag=True, help="Do not subtract the mean of each layer.")
@click.option("--svg", type=Path, metavar="FILE", help="Write the picture.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def look(
    texts: tuple[str, ...], word: str | None, raw: bool, svg: Path | None, **options: Any
) -> None:
    """Show how similar the uses of a word are, by layer.

    TEXTS are sentences. The table has the cosine of each pair of uses in every layer and of the
    means of the layers. All vectors of a layer share a common part, so the mean of each layer
    is subtracted first; --raw leaves it in.

    \b
    Examples:
      $ elmo look "The bank of the river" "The bank gave a loan" --word bank
      $ elmo look "He sat on the bank." "He ran a bank." "A bank lends." --word bank --svg bank.svg
      $ elmo look "It rains." "It pours." --server http://localhost:8000
    """
    from elmo_client import ElmoError
    from elmo_serve.look import uses
    from elmo_serve.look.report import show

    try:
        with steps() as step, _source(options, centred=not raw) as source:
            step("Comparing")
            found = uses.look(source, texts, word, centred=not raw)
    except (ElmoError, TokenizeError, uses.LookError) as error:
        fail(str(error), code=1)
    if svg is not None:
        try:
            write_bytes(svg, found.picture().encode())
        except OSError as error:
            fail(f"{svg}: {error.strerror or error}", code=1)
    if options["as_json"]:
        click.echo(orjson.dumps(found.as_json(), option=orjson.OPT_INDENT_2))
    else:
        show(found)


@contextmanager
def _source(options: dict[str, Any], *, centred: bool) -> Iterator[Source]:
    from elmo_serve.look.sources import ModelSource, ServerSource

    tokenizer, url = options["tokenizer"], options["server"]
    if url is not None:
        from elmo_client import Client

        key = options["api_key"]
        with Client(url, api_key=key, model=model_of_server(), patience_seconds=5) as client:
            yield ServerSource(client, tokenizer, centred=centred)
        return
    from elmo_model.checkpoints import CheckpointError
    from elmo_serve.files.in_process import InProcess

    try:
        network = InProcess.open(resolve_model(options["model"]))
    except CheckpointError as error:
        fail(str(error), code=1)
    yield ModelSource(network, tokenizer, centred=centred)
