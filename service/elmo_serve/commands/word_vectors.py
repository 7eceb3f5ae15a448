"""The command `elmo word-vectors`."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import click

from elmo_serve.commands.options import PlainText, resolve_model, tell_of_raw
from elmo_serve.commands.terminal import fail, steps

_ENDING = ".safetensors"
_TEXT = PlainText(path_type=Path, exists=True, dir_okay=False)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("word-vectors")
@click.argument("vectors", type=_FILE, required=False)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help=f"File to write, {_ENDING}.",
)
@click.option("--model", help="Take the token layer of this model in place of VECTORS.")
@click.option("--words", type=click.IntRange(min=1), help="How many words. Default: all.")
@click.option("--text", type=_TEXT, multiple=True, help="Tokenised text whose words are counted.")
@click.option("--vocabulary", type=_FILE, help="Words, one a line, the most frequent first.")
@click.option("--force", is_flag=True, help="Replace a file at --out.")
def word_vectors(
    vectors: Path | None,
    out: Path,
    model: str | None,
    words: int | None,
    text: tuple[Path, ...],
    vocabulary: Path | None,
    force: bool,
) -> None:
    """Make the file of static word vectors that the server maps into memory.

    VECTORS is a file of GloVe, or of word2vec as text or binary, gzip or not. With --model the
    vectors are its token layer, which sees no context: either half of layer 0, for the words of
    --text, of --vocabulary, or of the model where it has a vocabulary of whole words.

    \b
    Examples:
      $ elmo word-vectors glove.6B.300d.txt --out glove.safetensors
      $ elmo word-vectors --model english --words 50000 --text corpus.txt --out static.safetensors
      $ ELMO_WORD_VECTORS=glove.safetensors elmo serve
    """
    from elmo_model.models.token_layer import read_token_layer
    from elmo_model.word_vectors import read_word_vectors, write_word_vectors

    if (vectors is None) == (model is None):
        fail("expected a file of word vectors, or --model", code=2)
    if text and vocabulary:
        fail("--text and --vocabulary exclude each other", code=2)
    if model is None and (text or vocabulary):
        fail("--text and --vocabulary name words of --model", code=2)
    if out.suffix != _ENDING:
        fail(f"--out is '{out}', expected a name that ends in {_ENDING}", code=2)
    if out.exists() and not force:
        fail(f"{out} exists; --force replaces it", code=1)
    for each in text[:1]:
        tell_of_raw(each)
    with steps() as step:
        if model is not None:
            source = read_token_layer(resolve_model(model), words, text, vocabulary, step)
        else:
            assert vectors is not None, "one of the two is given"
            step(f"Reading {vectors}")
            source = islice(read_word_vectors(vectors), words)
        info = write_word_vectors(out, source)
    click.echo(f"Wrote {out}: {info.words:,} words of width {info.dimension}")
