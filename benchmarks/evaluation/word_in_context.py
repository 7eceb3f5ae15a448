"""Words in context: whether a word means the same in two sentences, decided by the cosine alone."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch.nn import functional

from benchmarks.evaluation.probes import Score
from benchmarks.evaluation.uses import Use, vectors_of
from elmo_model.inference.encoder import Encoder

Cosines = NDArray[np.float64]
Labels = NDArray[np.bool_]


def word_in_context(encoder: Encoder, uses: Sequence[Use]) -> Score:
    """Score each layer on pairs of uses by two-fold cross-validation of a threshold on the cosine.

    Each half of the pairs chooses the threshold for the other. Every second pair of each label
    belongs to one half.
    """
    same = np.array([use.label == "T" for use in uses[::2]])
    vectors = vectors_of(encoder, uses)
    layers = []
    for first, second in zip(vectors[::2].unbind(1), vectors[1::2].unbind(1), strict=True):
        cosines = functional.cosine_similarity(first, second).double().numpy()
        layers.append(100.0 * _right(cosines, same) / len(same))
    guess = 100.0 * max(int(same.sum()), int((~same).sum())) / len(same)
    name = "word in context, cosine"
    return Score(name, tuple(layers), len(same), guess, "the more frequent answer")


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
