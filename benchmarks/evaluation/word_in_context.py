"""Words in context: whether a word means the same in two sentences, decided by the cosine alone."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch.nn import functional

from elmo_model.errors import shown
from elmo_model.tasks.evaluate import Score, percent
from elmo_model.tasks.examples import Examples, FitError
from elmo_model.tasks.features import FeaturesOf
from elmo_model.tasks.readers import read_examples, read_rows
from elmo_model.text.tokenizers import tokenizer

Cosines = NDArray[np.float64]
Labels = NDArray[np.bool_]


def word_in_context(features_of: FeaturesOf, path: Path, limit: int | None) -> Score:
    """Score each layer by two-fold cross-validation of a threshold on the cosine.

    Each half of the pairs chooses the threshold for the other. Every second pair of each label
    belongs to one half. `limit` keeps the first pairs. Raises FitError as `read_pairs` does.
    """
    pairs = read_pairs(path, limit)
    if len(pairs) < 2:
        raise FitError(f"{path}: expected at least 2 pairs, found {len(pairs)}")
    same = np.array([label == "T" for label in pairs.labels])
    layers = []
    with features_of(pairs) as features:
        for number in range(features.layers):
            first, second = features.layer(number).unbind(dim=1)
            cosines = functional.cosine_similarity(first, second).double().numpy()
            layers.append(percent(_right(cosines, same), len(pairs)))
    guess = percent(max(int(same.sum()), int((~same).sum())), len(pairs))
    return Score(
        "word in context, cosine", tuple(layers), len(pairs), guess, "the more frequent answer"
    )


def read_pairs(path: Path, limit: int | None = None) -> Examples:
    """Read a table of pairs; `limit` keeps the first ones.

    Raises FitError for a label that is neither T nor F and for a pair without `index1` and
    `index2`, and what `read_examples` raises.
    """
    pairs = read_examples(path, "pair", "label", tokenizer("whitespace"), limit)
    if not set(pairs.labels) <= {"T", "F"}:
        row = next(row for row in read_rows(path) if row.label("label") not in ("T", "F"))
        raise FitError(f"{row.place}: label is {shown(row.label('label'))}, expected T or F")
    if any(place.token is None for places in pairs.places for place in places):
        raise FitError(f"{path}: a pair has no index1 or no index2, expected both columns")
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
