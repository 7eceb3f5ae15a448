"""The command `elmo index`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from elmo_model.errors import counted
from elmo_model.system import keep_freed_memory
from elmo_model.uses.text import read_sentences
from elmo_serve.commands.options import (
    PlainText,
    device_option,
    model_option,
    precision_option,
    resolve_model,
    tokenizer_option,
)
from elmo_serve.commands.terminal import fail, steps

_TOKENISED = "whitespace"


@click.command()
@click.argument("text", type=PlainText(path_type=Path, exists=True, dir_okay=False))
@click.argument("folder", type=click.Path(path_type=Path))
@model_option()
@tokenizer_option("Splits each line into tokens. Default: that of the model.")
@click.option("--tokenised", is_flag=True, help="The tokens of TEXT have spaces between them.")
@device_option()
@precision_option()
def index(
    text: Path,
    folder: Path,
    model: str,
    tokenizer: str | None,
    tokenised: bool,
    device: str,
    precision: str,
) -> None:
    """Index the uses of words in TEXT, for POST /neighbours.

    TEXT has a sentence a line, at most 1,000 tokens long; .gz, .xz and .bz2 are unpacked. FOLDER is
    made, and is for this model alone. A text of up to about 2 million tokens is searched fast.

    \b
    Example:
      $ elmo index corpus.txt uses --model english
      $ ELMO_INDEX=uses elmo serve --model english
    """
    from elmo_model.uses import indexing
    from elmo_model.uses.index import IndexInfo
    from elmo_serve.models.in_process import open_network

    if tokenised and tokenizer:
        fail("--tokenizer splits text, and --tokenised says that it is split already", code=2)
    start = time.perf_counter()
    indexing.refuse_existing(folder)
    network = open_network(
        resolve_model(model), device=device, precision=precision, owns_process=True
    )
    keep_freed_memory()
    info = network.info
    split_by = tokenizer or (_TOKENISED if tokenised else info.tokenizer)
    description = IndexInfo(
        text.name, info.name, info.revision, info.layers, info.dimension, split_by
    )
    with steps() as step:
        step(f"Reading {text}")
        sentences, lines = read_sentences(text, network.tokenizer(split_by))
        found = indexing.write_index(
            network.encoder, sentences, folder, description, network.batch_tokens, step, lines
        )
    click.echo(
        f"Indexed {text} in {folder}: {found.tokens:,} tokens, "
        f"{counted(found.sentences, 'sentence')}, {found.words:,} distinct words in "
        f"{time.perf_counter() - start:.1f} s"
    )
