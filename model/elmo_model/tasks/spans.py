"""Spans as labels of tokens: one form, IOB2, for all the forms of files, and legal sequences.

In IOB2 `B-TYPE` begins a span, `I-TYPE` continues it, and `O` is outside of all. A type may be
empty: then the labels are `B` and `I`.
"""

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Span = tuple[int, int, str]
"""First token, token after the last, and type."""

_LABEL: Final = re.compile(r"[BI]|[BIESLUM]-.*")
"""A label of a span in IOB1, IOB2, IO, BIOES, BILOU or BMES."""

_SHARE: Final = 0.99
"""Least share of the labels other than `O` that must be labels of spans. At 1 a single misspelt
label of a large file would turn its spans into unrelated labels."""

_BEGINS, _CONTINUES = "BSU", "IELM"


def is_span_label(label: str) -> bool:
    """Return whether a label other than `O` is one of a span."""
    return _LABEL.fullmatch(label) is not None


def are_spans(counts: dict[str, int]) -> bool:
    """Return whether labels of tokens, with how often each occurs, are those of spans."""
    inside = {label: count for label, count in counts.items() if label != "O"}
    known = sum(count for label, count in inside.items() if is_span_label(label))
    return bool(inside) and known >= _SHARE * sum(inside.values())


def iob2(labels: Sequence[str]) -> list[str]:
    """Return the span labels of one sentence as IOB2; any other label becomes `O`."""
    found = ["O"] * len(labels)
    for start, end, kind in spans(labels):
        ending = f"-{kind}" if kind else ""
        found[start:end] = [f"B{ending}", *[f"I{ending}"] * (end - start - 1)]
    return found


def spans(labels: Sequence[str]) -> set[Span]:
    """Return the spans of one sentence, as conlleval reads them.

    S and U begin a span as B does; E, L and M continue one as I does. A label that continues no
    span of its type begins one.
    """
    found: set[Span] = set()
    start, kind = -1, ""
    for place, label in enumerate([*labels, "O"]):
        prefix, _, name = label.partition("-") if is_span_label(label) else ("O", "", "")
        if start >= 0 and not (prefix in _CONTINUES and name == kind):
            found.add((start, place, kind))
            start = -1
        if prefix != "O" and start < 0:
            start, kind = place, name
    return found


Transitions = tuple[NDArray[np.bool_], NDArray[np.bool_]]
"""(C,) the labels that may start a sentence, and (C, C) which label may follow which."""


def legal_transitions(classes: Sequence[str]) -> Transitions:
    """Return the legal transitions of IOB2 labels, for any number of sentences.

    `I-TYPE` may only follow `B-TYPE` or `I-TYPE` of the same type.
    """
    inside = np.array([label[0] == "I" for label in classes])
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
