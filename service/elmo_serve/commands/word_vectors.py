"""The command `elmo word-vectors`, and files of word vectors as options of other commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from elmo_serve.commands.options import PlainText, tell_of_raw
from elmo_serve.commands.published import resolve_model
from elmo_serve.commands.terminal import fail, steps

_ENDINGS = (".safetensors", ".txt", ".vec", ".txt.gz", ".vec.gz")
_TEXT = PlainText(path_type=Path, exists=True, dir_okay=False)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("word-vectors")
@click.argument("model")
@click.option("--words", type=click.IntRange(min=1), help="How many words. Default: all.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="File to write: .safetensors, or word2vec's text as .txt, .vec or these with .gz.",
)
@click.option("--text", type=_TEXT, multiple=True, help="Tokenised text whose words are counted.")
@click.option("--vocabulary", type=_FILE, help="Words, one a line, the most frequent first.")
@click.option("--force", is_flag=True, help="Replace a file at --out.")
def word_vectors(model: str, force: bool, **values: Any) -> None:
    """Write a model's token layer as word vectors.

    The token layer sees no context. MODEL is a path, a built-in name or a published name. The
    words are those of --text, of --vocabulary, or of the model where it has a vocabulary of whole
    words. A word has P numbers: either half of its layer 0.

    \b
    Example:
      $ elmo word-vectors english --words 50000 --text corpus.txt --out static.safetensors
      $ ELMO_WORD_VECTORS=static.safetensors elmo serve
    """
    from elmo_model.word_vectors.token_layer import write_token_layer

    if values["text"] and values["vocabulary"]:
        fail("--text and --vocabulary exclude each other", code=2)
    if not values["out"].name.endswith(_ENDINGS):
        fail(f"--out is '{values['out']}', expected an ending of {', '.join(_ENDINGS)}", code=2)
    if values["out"].exists() and not force:
        fail(f"{values['out']} exists; --force replaces it", code=1)
    for text in values["text"][:1]:
        tell_of_raw(text)
    with steps() as step:
        line = write_token_layer(resolve_model(model), **values, on_step=step)
    click.echo(line)


def word_vector_map(path: Path, cache: Path | None = None) -> Path:
    """Return the folder of the map of a file, which is written at the first use of the file.

    `cache` is by default the cache folder of the environment. Raises WordVectorsError for a file
    that does not fit, SettingsError and DownloadError as `cache_of_environment`.
    """
    from elmo_model.word_vectors.store import store_folder
    from elmo_serve.models.cache import cache_of_environment

    return store_folder(path, cache or cache_of_environment().cache)
