"""Scores of predicted labels, and BIO labels: spans and the best legal sequence."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

Span = tuple[int, int, str]
"""First token, token after the last, and type."""


def is_bio(classes: Sequence[str]) -> bool:
    """Return whether labels are BIO: each is `O`, `B-type` or `I-type`, and one begins a span."""
    begins = any(label.startswith("B-") for label in classes)
    return begins and all(label == "O" or label[:2] in ("B-", "I-") for label in classes)


def spans(labels: Sequence[str]) -> set[Span]:
    """Return the spans of one sentence, as conlleval reads them.

    An `I-` that continues no span of its type begins one.
    """
    found: set[Span] = set()
    start, kind = 0, ""
    for place, label in enumerate([*labels, "O"]):
        prefix, _, name = label.partition("-")
        continues = prefix == "I" and name == kind
        if kind and not continues:
            found.add((start, place, kind))
            kind = ""
        if prefix in ("B", "I") and not kind:
            start, kind = place, name
    return found


Transitions = tuple[NDArray[np.bool_], NDArray[np.bool_]]
"""(C,) the labels that may start a sentence, and (C, C) which label may follow which."""


def legal_transitions(classes: Sequence[str]) -> Transitions:
    """Return the legal transitions of BIO labels, for any number of sentences.

    `I-type` may only follow `B-type` or `I-type` of the same type.
    """
    inside = np.array([label.startswith("I-") for label in classes])
    kinds = np.array([label[2:] for label in classes])
    outside = np.array([label == "O" for label in classes])
    follows = ~inside | (~outside[:, None] & (kinds[:, None] == kinds))
    return ~inside, follows


def best_legal(scores: NDArray[np.float32], transitions: Transitions) -> list[int]:
    """Map log-probabilities (n, C) of one sentence to the most probable legal labels (Viterbi)."""
    starts, follows = transitions
    best = np.where(starts, scores[0], -np.inf)
    arrivals = []
    for row in scores[1:]:
        paths = np.where(follows, best[:, None], -np.inf)
        arrivals.append(paths.argmax(axis=0))
        best = paths.max(axis=0) + row
    labels = [int(best.argmax())]
    for arrival in reversed(arrivals):
        labels.append(int(arrival[labels[-1]]))
    return labels[::-1]


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
