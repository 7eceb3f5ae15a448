"""The command `elmo tokenize`."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import orjson

from elmo_model.models.catalogue import tokenization
from elmo_model.text_files import TextError, numbered_lines
from elmo_model.tokenizers import TOKENIZERS, TokenizeError, tokenizer
from elmo_serve.commands.published import model_option
from elmo_serve.commands.terminal import fail


@click.command()
@click.argument("input", type=click.Path(exists=True, dir_okay=False, allow_dash=True), default="-")
@model_option("Name or path of the model, which at a path is known by the name of its folder.")
@click.option(
    "--tokenizer",
    "name",
    type=click.Choice(list(TOKENIZERS)),
    help="Tokenizer. Default: that of the model.",
)
@click.option("--language", help="Language code for moses. Default: that of the model.")
@click.option("--json", "as_json", is_flag=True, help="Print text, tokens and offsets as JSON.")
def tokenize(
    input: str,  # noqa: A002 - the argument's name
    model: str,
    name: str | None,
    language: str | None,
    as_json: bool,
) -> None:
    """Split each line of INPUT into tokens.

    The tokens have spaces between them. They are those that `POST /tokenize` and `elmo embed
    --tokenizer` make. No model is loaded. `-`, the default, is standard input.

    \b
    Examples:
      $ elmo tokenize text.txt > sentences.txt
      $ echo "It can't rain." | elmo tokenize --tokenizer moses --json
    """
    own, usual_language = tokenization(model, model)
    split = tokenizer(name or own, language or usual_language)
    number = 0
    try:
        for text in _lines(input):
            number += 1
            found = split(text)
            if as_json:
                members = {"text": text, "tokens": found.tokens, "offsets": found.offsets}
                click.echo(orjson.dumps(members))
            else:
                click.echo(" ".join(found.tokens))
    except TokenizeError as error:
        fail(f"{input}: line {number}: {error}", code=1)
    except TextError as error:
        fail(str(error), code=1)
    except UnicodeDecodeError as error:
        fail(f"{input} is not UTF-8: {error}", code=1)


def _lines(name: str) -> Iterator[str]:
    """Yield the lines of a file as `elmo embed` reads them, those of standard input at once."""
    if name != "-":
        yield from (line for _, _, line in numbered_lines(Path(name)))
        return
    stream = io.TextIOWrapper(sys.stdin.buffer, "utf-8-sig", newline="\n")
    yield from (line.rstrip("\r\n") for line in stream)
