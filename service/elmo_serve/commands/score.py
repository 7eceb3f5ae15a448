"""The command `elmo score`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elmo_model.inference.steps import whole
from elmo_model.text.by_length import by_length
from elmo_model.text.tokenizers import RAW_FROM, raw_note
from elmo_model.text.tokenizers import tokenizer as tokenizer_of
from elmo_serve.commands.options import (
    PlainText,
    device_option,
    model_option,
    resolve_model,
    tokenizer_option,
)
from elmo_serve.commands.terminal import tell
from elmo_serve.commands.tokenize import split_lines
from elmo_serve.workers.language_results import Scores

if TYPE_CHECKING:
    from elmo_serve.workers.language import LanguageModel

_LINES = 1_024
"""Lines that are read, scored and written at a time."""

_BATCH_TOKENS = 1_024
_COLUMNS = ("sentence_id", "token_id", "token", "surprisal", "unk", "forward", "backward")

_Scored = Sequence[Iterable[Any]]  # tokens, forward and backward surprisal, whether unknown


@click.command()
@click.argument("text", type=PlainText(exists=True, dir_okay=False, allow_dash=True))
@model_option()
@tokenizer_option(
    "Split each line into tokens; model: with the tokenizer of the model. Default: whitespace.",
    "model",
)
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
    text: str,
    model: str,
    tokenizer: str | None,
    softmax: Path | None,
    softmax_words: int | None,
    device: str,
) -> None:
    """Write the surprisal of each token of a text.

    TEXT has one sentence a line; `-` is standard input. Columns have tabs between them: sentence_id
    and token_id from 1, token, surprisal in bits, unk (1 for a token that was scored as <UNK>),
    forward and backward. Nothing is quoted: in pandas, read_csv with sep="\\t", quoting=3 and
    na_filter=False. The surprisal is the forward one. A line without a token has no row. The words
    that a model expects at a place come from a server: POST /substitutes, in docs/api.md.

    \b
    Examples:
      $ elmo score sentences.txt > surprisal.tsv
      $ elmo score text.txt --model runs/mine --tokenizer moses
    """
    from elmo_serve.models.in_process import place_of
    from elmo_serve.workers.language import LanguageModel

    resolved = resolve_model(model)
    place = place_of(device)
    network = LanguageModel.open(resolved, softmax, softmax_words, place)
    _write(_computed(_sentences(text, tokenizer, *network.tokenization), network))


def _sentences(
    text: str, tokenizer: str | None, usual: str, language: str
) -> Iterator[Sequence[str]]:
    """Yield the sentences of a text for a model of the tokenizer `usual`."""
    split = tokenizer_of(usual if tokenizer == "model" else tokenizer or "whitespace", language)
    sentences = (found.tokens for _, found in split_lines(text, split))
    if tokenizer is not None:
        return sentences
    first = list(islice(sentences, RAW_FROM))
    if note := raw_note(first, "--tokenizer model splits them"):
        tell(f"{text}: {note}")
    return chain(first, sentences)


def _pieces(sentences: Iterator[Sequence[str]]) -> Iterator[list[Sequence[str]]]:
    """Yield sentences, `_LINES` at a time: what is scored is written before more is read."""
    while lines := list(islice(sentences, _LINES)):
        yield lines


def _computed(sentences: Iterator[Sequence[str]], network: LanguageModel) -> Iterator[_Scored]:
    """Score sentences in this process."""
    for lines in _pieces(sentences):
        found: dict[int, Any] = {}
        for batch in by_length(range(len(lines)), lines, _BATCH_TOKENS):
            results = whole(network.results([lines[i] for i in batch], [Scores()] * len(batch)))
            found.update(zip(batch, (each.tolist() for each in results), strict=True))
        for number, tokens in enumerate(lines):
            yield tokens, *found[number]  # forward, backward, unknown


def _write(sentences: Iterable[_Scored]) -> None:
    click.echo("\t".join(_COLUMNS))
    for number, sentence in enumerate(sentences, 1):
        rows = zip(*sentence, strict=False)  # the end of a sentence has no row
        for place, (token, forward, backward, unknown) in enumerate(rows, 1):
            bits = f"{forward:.6f}"
            cells = number, place, token, bits, int(unknown), bits, f"{backward:.6f}"
            click.echo("\t".join(map(str, cells)))
