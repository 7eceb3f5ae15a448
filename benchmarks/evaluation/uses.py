"""Uses of words: tables and CoNLL-U files that hold them, and their vectors in every layer."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from elmo_model.inference.encoder import Encoder
from elmo_model.text.by_length import by_length
from elmo_model.text.conll import FORM, read_conllu

_BATCH_TOKENS = 2048
"""Tokens in a batch. Higher values are no faster on a CPU of two cores."""
_UPOS = 3
"""Column of the tag in CoNLL-U, counted from 0."""


@dataclass(frozen=True, slots=True)
class Use:
    """A word in a sentence of tokens: its place, counted from 0, and its label (a tag, a sense)."""

    word: str
    label: str
    place: int
    sentence: tuple[str, ...]


def read_uses(path: Path) -> list[Use]:
    """Read a table with the columns word, sense, token_index and sentence, a use a line."""
    return [
        Use(row["word"], row["sense"], int(row["token_index"]), tuple(row["sentence"].split()))
        for row in _rows(path)
    ]


def read_pairs(path: Path) -> list[Use]:
    """Read a table of words in two sentences; return both uses of each pair, one after the other.

    The columns are word, label, index1, index2, sentence1 and sentence2; the label T says that the
    word means the same.
    """
    return [
        Use(row["word"], row["label"], int(row[f"index{n}"]), tuple(row[f"sentence{n}"].split()))
        for row in _rows(path)
        for n in (1, 2)
    ]


def read_tagged(path: Path) -> list[Use]:
    """Read every word of a CoNLL-U file with its UPOS."""
    with path.open(encoding="utf-8") as lines:
        sentences = list(read_conllu(lines))
    return [
        Use(word[FORM], word[_UPOS], place, forms)
        for words in sentences
        for forms in [tuple(word[FORM] for word in words)]
        for place, word in enumerate(words)
    ]


def _rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the lines of a table by the names of its columns; nothing is quoted."""
    with path.open(encoding="utf-8") as lines:
        names = next(lines).rstrip("\n").split("\t")
        for line in lines:
            yield dict(zip(names, line.rstrip("\n").split("\t"), strict=True))


def by_word(uses: Sequence[Use]) -> dict[str, list[int]]:
    """Return the numbers of the uses of each word."""
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, use in enumerate(uses):
        rows[use.word].append(row)
    return dict(rows)


def vectors_of(encoder: Encoder, uses: Sequence[Use]) -> Tensor:
    """Map N uses to their vectors (N, L + 1, 2P), float32 on the CPU; a sentence is read once."""
    places: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, use in enumerate(uses):
        places[use.sentence].append(row)
    sentences = list(places)
    config = encoder.config
    found = torch.empty(len(uses), config.layers, config.dimension)
    for batch in by_length(range(len(sentences)), sentences, _BATCH_TOKENS):
        chosen = [sentences[number] for number in batch]
        for sentence, layers in zip(chosen, encoder.embed(chosen), strict=True):
            rows = places[sentence]
            at = [uses[row].place for row in rows]
            found[rows] = layers[:, at].float().cpu().transpose(0, 1)
    return found
