"""Words in context: whether a word means the same in two sentences, decided by the cosine alone."""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch.nn import functional

from elmo_model.elmo import Elmo
from elmo_model.evaluation.features import vectors_of
from elmo_model.evaluation.score import EvaluationError, Score, percent
from elmo_model.evaluation.tables import place, read_columns

_COLUMNS = ("label", "index1", "index2", "sentence1", "sentence2")

Cosines = NDArray[np.float64]
Labels = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SentencePair:
    """Two sentences, the places of a word in them, and whether it has one sense in both."""

    sentences: tuple[tuple[str, ...], tuple[str, ...]]
    places: tuple[int, int]
    same: bool


def word_in_context(elmo: Elmo, path: Path, limit: int | None) -> Score:
    """Score each layer by two-fold cross-validation of a threshold on the cosine.

    Each half of the pairs chooses the threshold for the other. Every second pair of each label
    belongs to one half. `limit` keeps the first pairs. Raises EvaluationError as `read_pairs` does.
    """
    pairs = list(islice(read_pairs(path), limit))
    if len(pairs) < 2:
        raise EvaluationError(f"{path}: holds {len(pairs)} pairs, expected at least 2")
    sentences = [sentence for pair in pairs for sentence in pair.sentences]
    vectors = vectors_of(elmo, sentences, [[p] for pair in pairs for p in pair.places])
    same = np.array([pair.same for pair in pairs])
    layers = []
    for layer in vectors:
        cosines = functional.cosine_similarity(layer[0::2], layer[1::2]).double().numpy()
        layers.append(percent(_right(cosines, same), len(pairs)))
    guess = percent(max(int(same.sum()), int((~same).sum())), len(pairs))
    return Score(
        "word in context, cosine", tuple(layers), len(pairs), guess, "the more frequent answer"
    )


def read_pairs(path: Path) -> list[SentencePair]:
    """Read a table of pairs. Raises EvaluationError for a missing column or a wrong line."""
    pairs = []
    for label, *rest in read_columns(path, _COLUMNS):
        if label not in ("T", "F"):
            raise EvaluationError(f"{path}: label is {label!r:.20}, expected T or F")
        first, second = tuple(rest[2].split()), tuple(rest[3].split())
        places = place(path, rest[0], first), place(path, rest[1], second)
        pairs.append(SentencePair((first, second), places, label == "T"))
    return pairs


def best_threshold(cosines: Cosines, same: Labels) -> float:
    """Return the threshold with the most right decisions; pairs at or above it are the same."""
    order = np.argsort(cosines)
    values, truth = cosines[order], same[order]
    # right[k] counts the decisions if the threshold is between values k - 1 and k: different pairs
    # below it, and equal pairs above it.
    right = np.concatenate(([0], np.cumsum(~truth))) + np.concatenate(
        (np.cumsum(truth[::-1])[::-1], [0])
    )
    bounds = np.concatenate(([-np.inf], (values[:-1] + values[1:]) / 2, [np.inf]))
    # No threshold lies between equal values.
    right[1:-1][values[:-1] == values[1:]] = -1
    return float(bounds[right.argmax()])


def _right(cosines: Cosines, same: Labels) -> int:
    """Return the number of right decisions of the cross-validation."""
    half = np.empty(len(same), dtype=np.int64)
    for answer in (True, False):
        half[same == answer] = np.arange((same == answer).sum()) % 2
    right = 0
    for chosen in (0, 1):
        bound = best_threshold(cosines[half == chosen], same[half == chosen])
        right += int(((cosines >= bound) == same)[half != chosen].sum())
    return right
