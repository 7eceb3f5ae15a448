"""Accuracy and span F1 over sentences, with the standard error that the sentences give."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from elmo_model.tasks.spans import spans

Measure = Literal["accuracy", "span_f1"]
"""`span_f1` is the F1 of spans: a span counts where its bounds and its type are right."""

_EQUAL: Final = 1.96
"""Standard errors within which a difference of two scores is no difference: 95 %."""


@dataclass(frozen=True, slots=True)
class Score:
    """A score from 0 to 1, and by the number of each scored sentence its residual.

    The score is sum(hits) / sum(size) over sentences; the residual of a sentence is
    (hits - score * size) / sum(size). Residuals add up to 0.
    """

    value: float
    residuals: Mapping[int, float]

    @classmethod
    def of(
        cls,
        measure: Measure,
        numbers: Iterable[int],
        wanted: Iterable[Sequence[str]],
        found: Iterable[Sequence[str]],
    ) -> Self:
        """Compare the predicted labels of sentences of some numbers with the right ones.

        The F1 of sentences without a span, wanted or found, is 0.
        """
        count = _span_hits if measure == "span_f1" else _label_hits
        pairs = [count(*labels) for labels in zip(wanted, found, strict=True)]
        hits, sizes = np.array(pairs, np.float64).T
        total = sizes.sum() or 1.0
        value = hits.sum() / total
        residuals = (hits - value * sizes) / total
        return cls(float(value), dict(zip(numbers, residuals.tolist(), strict=True)))


@dataclass(frozen=True, slots=True)
class MeanScore:
    """The mean of the scores of several seeds, and the residual of each sentence in it.

    Sentences that a seed does not score have the residual 0 there.
    """

    value: float
    residuals: NDArray[np.float64]

    @classmethod
    def of(cls, scores: Sequence[Score]) -> Self:
        """Average the scores; the residuals are in the order of the sentences' numbers."""
        numbers = sorted({number for score in scores for number in score.residuals})
        rows = [[score.residuals.get(number, 0.0) for number in numbers] for score in scores]
        value = sum(score.value for score in scores) / len(scores)
        return cls(value, np.array(rows).mean(axis=0))

    @property
    def error(self) -> float | None:
        """The standard error over sentences; None for a single sentence."""
        return standard_error(self.residuals)

    def equals(self, other: Self) -> bool:
        """Return whether a score of the same sentences differs by less than 1.96 errors.

        The error is the one of the difference, from the differences of the residuals.
        """
        difference = abs(self.value - other.value)
        error = standard_error(self.residuals - other.residuals)
        return error is None or difference == 0 or difference < _EQUAL * error


def standard_error(residuals: NDArray[np.float64]) -> float | None:
    """Map the residuals of n sentences to sqrt(n / (n - 1) * sum of squares); None for n = 1.

    It is the error of a ratio of sums over sentences that are drawn at random, to first order, as
    a bootstrap over sentences gives it.
    """
    count = len(residuals)
    if count < 2:
        return None
    return math.sqrt(count / (count - 1) * float(np.square(residuals).sum()))


def _label_hits(wanted: Sequence[str], found: Sequence[str]) -> tuple[int, int]:
    return sum(a == b for a, b in zip(wanted, found, strict=True)), len(wanted)


def _span_hits(wanted: Sequence[str], found: Sequence[str]) -> tuple[int, int]:
    """Return twice the spans that are right, and the spans wanted and found together."""
    one, two = spans(wanted), spans(found)
    return 2 * len(one & two), len(one) + len(two)
