"""Senses of ordinary words: uses of one sense should be nearer than uses of two senses.

`senses.tsv` holds 30 English words with four sentences each, two for each of two senses. Words and
sentences were written down by ordinary English alone, before any model was scored on them.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from elmo_model.tasks.evaluation.homographs import read_uses, rows_of
from elmo_model.tasks.evaluation.score import Score, percent
from elmo_model.tasks.features import FeaturesOf

SENTENCES = Path(__file__).with_name("senses.tsv")
# Smallest difference of mean cosines that counts. The token layer sees no context: its vectors of a
# word are equal but for rounding.
_MARGIN = 1e-4


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
