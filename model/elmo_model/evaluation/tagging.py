"""Part-of-speech tagging by a linear probe, from CoNLL-U files."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch

from elmo_model.elmo import Elmo
from elmo_model.evaluation.features import vectors_of
from elmo_model.evaluation.probe import predictions
from elmo_model.evaluation.score import EvaluationError, Score, percent
from elmo_model.text_files import open_text

_COLUMNS = {"upos": 3, "xpos": 4}

Tagged = tuple[list[str], list[str]]


def tagging(elmo: Elmo, train: Path, test: Path, column: str, limit: int | None) -> Score:
    """Score each layer; `limit` keeps the first sentences of both files."""
    learnt = list(islice(read_conllu(train, column), limit))
    asked = list(islice(read_conllu(test, column), limit))
    numbers: dict[str, int] = {}
    labels = torch.tensor([numbers.setdefault(t, len(numbers)) for _, tags in learnt for t in tags])
    wanted = torch.tensor([numbers.get(tag, -1) for _, tags in asked for tag in tags])
    train_vectors, test_vectors = _vectors(elmo, learnt), _vectors(elmo, asked)
    layers = []
    for layer in range(elmo.layers):
        found = predictions(train_vectors[layer], labels, test_vectors[layer], len(numbers))
        layers.append(percent(int((found == wanted).sum()), len(wanted)))
    name = f"{column.upper()} tags, linear probe"
    guess = "most frequent tag of the word"
    return Score(name, tuple(layers), len(wanted), _guessed(learnt, asked), guess)


def read_conllu(path: Path, column: str) -> Iterator[Tagged]:
    """Yield words and tags of each sentence; ranges and empty nodes are no words.

    Raises EvaluationError for a line that is not of ten columns.
    """
    words: list[str] = []
    tags: list[str] = []
    with open_text(path) as lines:
        for number, line in enumerate(lines, 1):
            text = line.rstrip("\r\n")
            if text.startswith("#"):
                continue
            if not text:
                if words:
                    yield words, tags
                words, tags = [], []
                continue
            fields = text.split("\t")
            if len(fields) != 10:
                raise EvaluationError(
                    f"{path}: line {number} has {len(fields)} columns, expected the 10 of CoNLL-U"
                )
            if fields[0].isdigit():  # not 3-4, not 3.1
                words.append(fields[1])
                tags.append(fields[_COLUMNS[column]])
    if words:
        yield words, tags


def _vectors(elmo: Elmo, tagged: list[Tagged]) -> torch.Tensor:
    if not tagged:
        raise EvaluationError("there is no tagged sentence")
    return vectors_of(elmo, [w for w, _ in tagged], [range(len(w)) for w, _ in tagged])


def _guessed(learnt: list[Tagged], asked: list[Tagged]) -> float:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    every: Counter[str] = Counter()
    for words, tags in learnt:
        every.update(tags)
        for word, tag in zip(words, tags, strict=True):
            counts[word][tag] += 1
    right = items = 0
    for words, tags in asked:
        for word, tag in zip(words, tags, strict=True):
            items += 1
            right += tag == (counts.get(word) or every).most_common(1)[0][0]
    return percent(right, items)
