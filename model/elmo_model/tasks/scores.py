"""Scores of predicted labels."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from elmo_model.tasks.bio import spans


@dataclass(frozen=True, slots=True)
class Scores:
    """Fractions from 0 to 1.

    `micro_f1` is over all labels but `O`; `span_f1` is there for BIO labels alone: a span counts
    where its bounds and its type are right.
    """

    accuracy: float
    macro_f1: float
    micro_f1: float
    span_f1: float | None = None

    @property
    def main(self) -> float:
        """The score that fits are compared by: span F1 where there is one, else accuracy."""
        return self.accuracy if self.span_f1 is None else self.span_f1

    def as_dict(self) -> dict[str, float]:
        """Return the scores that there are, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def score(wanted: Sequence[str], found: Sequence[str]) -> Scores:
    """Compare N predicted labels with the right ones; N is at least 1."""
    right = sum(a == b for a, b in zip(wanted, found, strict=True))
    hits: Counter[str] = Counter(a for a, b in zip(wanted, found, strict=True) if a == b)
    asked, given = Counter(wanted), Counter(found)
    labels = sorted(asked | given)
    each = [_f1(hits[label], given[label], asked[label]) for label in labels]
    inside = [label for label in labels if label != "O"]
    micro = _f1(*(sum(counts[label] for label in inside) for counts in (hits, given, asked)))
    return Scores(right / len(wanted), sum(each) / len(each), micro)


def span_f1(wanted: Iterable[Sequence[str]], found: Iterable[Sequence[str]]) -> float:
    """Return the F1 of the spans of some sentences' BIO labels; 0 where there is no span."""
    hits = given = asked = 0
    for right, predicted in zip(wanted, found, strict=True):
        one, two = spans(right), spans(predicted)
        hits, given, asked = hits + len(one & two), given + len(two), asked + len(one)
    return _f1(hits, given, asked)


def _f1(hits: int, given: int, asked: int) -> float:
    return 2 * hits / (given + asked) if given + asked else 0.0
