"""Word in context: does a word mean the same in two sentences? Told by the cosine alone."""

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
    """Two sentences, the place of the word in each, and whether it means the same in both."""

    sentences: tuple[tuple[str, ...], tuple[str, ...]]
    places: tuple[int, int]
    same: bool


def word_in_context(elmo: Elmo, path: Path, limit: int | None) -> Score:
    """Score each layer: the threshold is chosen on one half of the pairs and scored on the other.

    The halves, every second pair of each answer, take turns. `limit` keeps the first pairs.
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
    """Read pairs. Raises EvaluationError for what is no such table."""
    pairs = []
    for label, *rest in read_columns(path, _COLUMNS):
        if label not in ("T", "F"):
            raise EvaluationError(f"{path}: label is {label!r:.20}, expected T or F")
        first, second = tuple(rest[2].split()), tuple(rest[3].split())
        places = place(path, rest[0], first), place(path, rest[1], second)
        pairs.append(SentencePair((first, second), places, label == "T"))
    return pairs


def best_threshold(cosines: Cosines, same: Labels) -> float:
    """Return the bound that parts the pairs best; those at it or above are the same."""
    order = np.argsort(cosines)
    values, truth = cosines[order], same[order]
    # right when the bound is below value k: the differing pairs before it, the same ones from it on
    right = np.concatenate(([0], np.cumsum(~truth))) + np.concatenate(
        (np.cumsum(truth[::-1])[::-1], [0])
    )
    bounds = np.concatenate(([-np.inf], (values[:-1] + values[1:]) / 2, [np.inf]))
    # between equal values there is no bound
    right[1:-1][values[:-1] == values[1:]] = -1
    return float(bounds[right.argmax()])


def _right(cosines: Cosines, same: Labels) -> int:
    half = np.empty(len(same), dtype=np.int64)
    for answer in (True, False):
        half[same == answer] = np.arange((same == answer).sum()) % 2
    right = 0
    for chosen in (0, 1):
        bound = best_threshold(cosines[half == chosen], same[half == chosen])
        right += int(((cosines >= bound) == same)[half != chosen].sum())
    return right
