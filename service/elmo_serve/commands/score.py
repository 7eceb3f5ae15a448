"""The command `elmo score`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo_model.models.catalogue import tokenization
from elmo_model.text.batches import by_length
from elmo_model.text.files import numbered_lines
from elmo_model.text.tokenizers import tokenizer as tokenizer_of
from elmo_serve.commands.options import device_option, model_option, tokenizer_option
from elmo_serve.commands.published import resolve_model
from elmo_serve.output import Scores

if TYPE_CHECKING:
    from elmo_serve.workers.language import LanguageModel

_LINES = 1_024
"""Lines that are read, scored and written at a time."""

_BATCH_TOKENS = 1_024
_COLUMNS = ("sentence_id", "token_id", "token", "surprisal", "unk", "forward", "backward")


@click.command()
@click.argument("text", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@model_option()
@tokenizer_option("Splits each line. Default: tokens have white space between them.")
@click.option(
    "--softmax",
    type=click.Path(exists=True, path_type=Path),
    help="File of the softmax, where it does not lie with the model.",
)
@click.option(
    "--softmax-words", type=click.IntRange(min=3), help="Use its first words. Default: all."
)
@device_option()
def score(
    text: Path,
    model: str,
    tokenizer: str | None,
    softmax: Path | None,
    softmax_words: int | None,
    device: str,
) -> None:
    """Write the surprisal of each token of a text.

    TEXT has one sentence a line. Columns have tabs between them: sentence_id and token_id from 1,
    token, surprisal in bits, unk (1 for a token that was scored as <UNK>), forward and backward.
    The surprisal is the forward one. A line without a token has no row.

    \b
    Examples:
      $ elmo score sentences.txt > surprisal.tsv
      $ elmo score text.txt --model runs/mine --tokenizer moses
    """
    from elmo_serve.models.opening import place_of
    from elmo_serve.workers.language import LanguageModel

    resolved = resolve_model(model)
    _, language = tokenization(model, resolved)
    split = tokenizer_of(tokenizer or "whitespace", language)
    place = place_of(device)
    network = LanguageModel.open(resolved, softmax, softmax_words, place)
    click.echo("\t".join(_COLUMNS))
    lines, first = (split(line).tokens for _, _, line in numbered_lines(text)), 1
    while sentences := list(islice(lines, _LINES)):
        for row in _rows(sentences, first, network):
            click.echo("\t".join(row))
        first += len(sentences)


def _rows(
    sentences: Sequence[Sequence[str]], first: int, network: LanguageModel
) -> Iterator[tuple[str, ...]]:
    """Yield the rows of sentences, in order; `first` is the number of the first one."""
    found: dict[int, list[list[float]]] = {}
    for batch in by_length(range(len(sentences)), sentences, _BATCH_TOKENS):
        results = network.results([sentences[i] for i in batch], [Scores()] * len(batch))
        found.update(zip(batch, (each.tolist() for each in results), strict=True))
    for number, tokens in enumerate(sentences):
        for place, (token, *values) in enumerate(zip(tokens, *found[number], strict=False), 1):
            ahead, behind, unknown = (f"{value:.6f}" for value in values)
            ids = str(first + number), str(place)
            yield *ids, token, ahead, unknown[0], ahead, behind
