"""The command `elmo tokenize`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import orjson

from elmo_model.models.catalogue import (
    BUILT_IN,
    canonical,
    path_fault,
    published_model,
    tokenization,
)
from elmo_model.text.lines import lines_in, numbered_lines
from elmo_model.text.tokenizers import Tokenize, Tokenized, TokenizeError
from elmo_model.text.tokenizers import tokenizer as tokenizer_of
from elmo_serve.commands.options import PlainText, json_option, model_option, tokenizer_option
from elmo_serve.commands.terminal import fail


@click.command()
@click.argument("input", type=PlainText(exists=True, dir_okay=False, allow_dash=True), default="-")
@model_option("Name or path of the model, which at a path is known by the name of its folder.")
@tokenizer_option()
@click.option(
    "--language",
    help="Code of the language, by which moses splits. Default: that of the model.",
)
@json_option("Print text, tokens and offsets as JSON.")
def tokenize(
    input: str,  # noqa: A002 - the argument's name
    model: str,
    tokenizer: str | None,
    language: str | None,
    as_json: bool,
) -> None:
    """Split each line of INPUT into tokens.

    The tokens have spaces between them. They are those that `POST /tokenize` and `elmo embed
    --tokenizer` make. Of models a .safetensors file alone is read. `-`, the default, is standard
    input.

    \b
    Examples:
      $ elmo tokenize text.txt > sentences.txt
      $ echo "It can't rain." | elmo tokenize --tokenizer moses --json
    """
    is_name = canonical(model) in BUILT_IN or published_model(model) is not None
    if not is_name and "/" not in model and (fault := path_fault(model)) is not None:
        fail(fault, code=1)
    usual, stated = tokenization(model) if is_name else _of_path(model)
    split = tokenizer_of(tokenizer or usual, language or stated)
    for text, found in split_lines(input, split):
        if as_json:
            members = {"text": text, "tokens": found.tokens, "offsets": found.offsets}
            click.echo(orjson.dumps(members))
        else:
            click.echo(" ".join(found.tokens))


def _of_path(path: str) -> tuple[str, str]:
    """Return the tokenizer and the language of a model; a file in the native format states them."""
    if Path(path).exists():
        from elmo_model.checkpoints import native
        from elmo_model.models.opening import open_model, tokenization_of

        if native.recognises(Path(path)):
            return tokenization_of(open_model(path).origin)
    return tokenization(path)


def split_lines(name: str, split: Tokenize) -> Iterator[tuple[str, Tokenized]]:
    """Yield each line of a file, or of `-`, standard input, and its tokens.

    Raises TextError, and TokenizeError with the number of the line.
    """
    for number, text in enumerate(_lines(name), 1):
        try:
            found = split(text)
        except TokenizeError as error:
            raise TokenizeError(f"{name}: line {number}: {error}") from error
        yield text, found


def _lines(name: str) -> Iterator[str]:
    """Yield the lines as `elmo embed` reads them, those of standard input at once."""
    lines = lines_in(sys.stdin.buffer, name) if name == "-" else numbered_lines(Path(name))
    return (line for _, _, line in lines)
