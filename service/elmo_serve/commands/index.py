"""The command `elmo index`."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elmo_model.inference.malloc import keep_freed_memory
from elmo_model.neighbours.text import PART_TOKENS, IndexFolderError, TextParts
from elmo_model.precision import PRECISIONS
from elmo_model.text_files import TextError
from elmo_model.tokenizers import TOKENIZERS, tokenizer
from elmo_serve.commands.published import model_option, resolve_model
from elmo_serve.commands.terminal import fail, token_progress

if TYPE_CHECKING:
    from elmo_model.neighbours.indexing import Indexed
    from elmo_serve.files.in_process import InProcess

_TOKENISED = "whitespace"


@click.command()
@click.argument("text", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("folder", type=click.Path(path_type=Path))
@model_option()
@click.option(
    "--tokenizer",
    "split_by",
    type=click.Choice(list(TOKENIZERS)),
    help="Splits each line into tokens. Default: that of the model.",
)
@click.option("--tokenised", is_flag=True, help="The tokens of TEXT have spaces between them.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda:0, ...")
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    default="float32",
    show_default=True,
    help="Precision of the weights. int8: on a CPU with VNNI.",
)
@click.option(
    "--part-tokens",
    type=click.IntRange(min=1, max=1_048_576),
    default=PART_TOKENS,
    show_default=True,
    help="Tokens that are written at once: less needs less memory, more is searched faster.",
)
def index(text: Path, folder: Path, **options: Any) -> None:
    """Index the uses of words in TEXT, for POST /neighbours.

    TEXT has a sentence a line, at most 1,000 tokens long; .gz, .xz and .bz2 are unpacked. FOLDER is
    made, and is for this model alone. A run that was interrupted or killed continues
    when the same command is started again.

    \b
    Example:
      $ elmo index corpus.txt uses --model english
      $ ELMO_INDEX=uses elmo serve --model english
    """
    start = time.perf_counter()
    try:
        found = _index(text, folder, options)
    except (IndexFolderError, TextError) as error:
        fail(str(error), code=1)
    except OSError as error:
        fail(f"{error.filename or folder}: {error.strerror or error}", code=1)
    except KeyboardInterrupt:
        fail("interrupted; the same command continues the index", code=130)
    again = f", {found.resumed:,} of them by an earlier run" if found.resumed else ""
    click.echo(
        f"Indexed {text} in {folder}: {found.tokens:,} tokens{again}, {found.sentences:,} "
        f"sentences, {found.words:,} distinct words in {time.perf_counter() - start:.1f} s"
    )


def _index(text: Path, folder: Path, options: dict[str, Any]) -> Indexed:
    from elmo_model.neighbours.indexing import index_text
    from elmo_model.neighbours.store import Manifest

    network = _network(options)
    info = network.info
    if options["tokenised"] and options["split_by"]:
        fail("--tokenizer splits text, and --tokenised says that it is split already", code=2)
    name = options["split_by"] or (_TOKENISED if options["tokenised"] else info.tokenizer)
    parts = TextParts(text, tokenizer(name, info.language), options["part_tokens"])
    manifest = Manifest(text.name, info.name, info.revision, info.layers, info.dimension, name)
    with token_progress() as step:

        def on_progress(done: int, total: int) -> None:
            step("tokens", done, total)

        return index_text(
            network.encoder, parts, folder, manifest, network.batch_tokens, on_progress
        )


def _network(options: dict[str, Any]) -> InProcess:
    from elmo_model.checkpoints import CheckpointError
    from elmo_serve.files.in_process import InProcess

    model = resolve_model(options["model"])
    try:
        network = InProcess.open(
            model, device=options["device"], precision=options["precision"], owns_process=True
        )
    except CheckpointError as error:
        fail(str(error), code=1)
    except (RuntimeError, ValueError) as error:
        fail(f"{options['device']}, {options['precision']}: {error}", code=1)
    keep_freed_memory()
    return network
