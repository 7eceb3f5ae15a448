"""The command `elmo index`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from elmo_model.errors import counted
from elmo_model.files.runtime import keep_freed_memory
from elmo_model.neighbours.text import PART_TOKENS, TextParts
from elmo_serve.commands.options import (
    PlainText,
    device_option,
    model_option,
    precision_option,
    tokenizer_option,
)
from elmo_serve.commands.published import resolve_model
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
@click.option(
    "--part-tokens",
    type=click.IntRange(min=1, max=1_048_576),
    default=PART_TOKENS,
    show_default=True,
    help="Tokens of a part: smaller parts need less memory, larger ones are searched faster.",
)
def index(
    text: Path,
    folder: Path,
    model: str,
    tokenizer: str | None,
    tokenised: bool,
    device: str,
    precision: str,
    part_tokens: int,
) -> None:
    """Index the uses of words in TEXT, for POST /neighbours.

    TEXT has a sentence a line, at most 1,000 tokens long; .gz, .xz and .bz2 are unpacked. FOLDER is
    made, and is for this model alone. A run that was interrupted or killed continues
    when the same command is started again.

    \b
    Example:
      $ elmo index corpus.txt uses --model english
      $ ELMO_INDEX=uses elmo serve --model english
    """
    from elmo_model.neighbours import indexing
    from elmo_model.neighbours.manifest import Manifest
    from elmo_serve.models.opening import open_network

    if tokenised and tokenizer:
        fail("--tokenizer splits text, and --tokenised says that it is split already", code=2)
    start = time.perf_counter()
    network = open_network(
        resolve_model(model), device=device, precision=precision, owns_process=True
    )
    keep_freed_memory()
    info = network.info
    split_by = tokenizer or (_TOKENISED if tokenised else info.tokenizer)
    parts = TextParts(text, network.tokenizer(split_by), part_tokens)
    manifest = Manifest(text.name, info.name, info.revision, info.layers, info.dimension, split_by)
    try:
        with steps() as step:
            found = indexing.index_text(
                network.encoder,
                parts,
                folder,
                manifest,
                network.batch_tokens,
                step,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted; the same command continues the index") from None
    again = f", {found.resumed:,} of them by an earlier run" if found.resumed else ""
    click.echo(
        f"Indexed {text} in {folder}: {found.tokens:,} tokens{again}, "
        f"{counted(found.sentences, 'sentence')}, {found.words:,} distinct words in "
        f"{time.perf_counter() - start:.1f} s"
    )
