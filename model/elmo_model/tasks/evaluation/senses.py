"""Word senses: one spelling, several senses, from tables and from a built-in set.

`senses.tsv` holds 30 English words with four sentences each, two for each of two senses. Words and
sentences were written down by ordinary English alone, before any model was scored on them.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from elmo_model.tasks.evaluation.probe import (
    Classifier,
    most_frequent,
    nearest_centroid,
    predictions,
    right,
)
from elmo_model.tasks.evaluation.score import Score, percent
from elmo_model.tasks.examples import Examples, FitError
from elmo_model.tasks.features import FeaturesOf
from elmo_model.tasks.readers import read_rows

SENTENCES = Path(__file__).with_name("senses.tsv")
# Smallest difference of mean cosines that counts. The token layer sees no context: its vectors of a
# word are equal but for rounding.
_MARGIN = 1e-4

_METHODS: dict[str, Classifier] = {
    "homographs, nearest sense centroid": nearest_centroid,
    "homographs, linear probe a word": predictions,
}

Uses = tuple[Examples, list[str]]
"""Tokens whose labels are their senses, and the word of each."""


def homographs(features_of: FeaturesOf, train: Path, test: Path, limit: int | None) -> list[Score]:
    """Score each layer by the nearest centroid of a sense and by a linear probe for each word.

    A sense or word that training lacks counts as wrong. `limit` keeps the first uses of each word.
    Raises FitError for a table without uses, and what `read_uses` raises.
    """
    (training, known), (testing, words) = (_read(path, limit) for path in (train, test))
    usual = most_frequent(known, training.labels)
    pairs = zip(words, testing.labels, strict=True)
    baseline = percent(sum(usual.get(word) == sense for word, sense in pairs), len(testing))
    with features_of(training) as own, features_of(testing) as asked:
        counts = {name: [0] * own.layers for name in _METHODS}
        rows = rows_of(known)
        for word, chosen in rows_of(words).items():
            if word not in rows:
                continue
            one, other = own.take(rows[word]), asked.take(chosen)  # a classifier for each word
            for name, classify in _METHODS.items():
                for layer in range(own.layers):
                    counts[name][layer] += right(one, other, layer, classify)
    return [
        Score(
            name,
            tuple(percent(count, len(testing)) for count in found),
            len(testing),
            baseline,
            "most frequent sense",
        )
        for name, found in counts.items()
    ]


def read_uses(path: Path) -> Uses:
    """Read a table with the columns `word`, `sense`, `token_index` and `sentence`.

    Raises FitError and TextError as `read_rows` does.
    """
    rows = list(read_rows(path))
    return Examples.of_words(row.word("sense") for row in rows), [row.field("word") for row in rows]


def rows_of(words: Sequence[str]) -> dict[str, list[int]]:
    """Return the places of each word in a list."""
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, word in enumerate(words):
        rows[word].append(row)
    return rows


def _read(path: Path, limit: int | None) -> Uses:
    """Return the first `limit` uses of each word."""
    examples, words = read_uses(path)
    if not words:
        raise FitError(f"{path}: holds no use of a word")
    kept = [row for rows in rows_of(words).values() for row in islice(rows, limit)]
    return examples.take(kept), [words[row] for row in kept]


def senses(features_of: FeaturesOf) -> Score:
    """Score each layer by the words whose mean cosine within a sense is above that across senses.

    The score names the words that each layer misses. Chance is 50 %.
    """
    examples, words = read_uses(SENTENCES)
    rows = rows_of(words)
    with features_of(examples) as features:
        layers = [features.layer(number)[:, 0] for number in range(features.layers)]
    misses = tuple(
        tuple(
            word
            for word, chosen in rows.items()
            if separation(layer[chosen], [examples.labels[row] for row in chosen]) <= _MARGIN
        )
        for layer in layers
    )
    accuracies = tuple(percent(len(rows) - len(missed), len(rows)) for missed in misses)
    return Score("senses of ordinary words", accuracies, len(rows), 50.0, "chance", misses)


def separation(vectors: Tensor, senses: Sequence[str]) -> float:
    """Map vectors (N, width) of N uses of a word to a difference of mean cosines.

    It is the mean cosine of pairs of one sense minus that of pairs of two senses.
    """
    unit = functional.normalize(vectors.double(), dim=1)
    cosines = unit @ unit.T
    same = torch.tensor([[one == other for other in senses] for one in senses])
    pairs = torch.ones_like(same).triu(1)
    return float(cosines[same & pairs].mean() - cosines[~same & pairs].mean())
