"""BIO labels: spans, the transitions that are legal, and the best legal sequence."""

from collections.abc import Sequence

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


def legal_transitions(classes: Sequence[str]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return (C,) the labels that may start a sentence, and (C, C) which may follow which.

    `I-type` may only follow `B-type` or `I-type` of the same type.
    """
    inside = np.array([label.startswith("I-") for label in classes])
    kinds = [label[2:] for label in classes]
    follows = np.array(
        [
            [not inside[after] or (before != "O" and kinds[i] == kinds[after])
             for after in range(len(classes))]
            for i, before in enumerate(classes)
        ]
    )  # fmt: skip
    return ~inside, follows


def best_legal(scores: NDArray[np.float32], classes: Sequence[str]) -> list[int]:
    """Map log-probabilities (n, C) of one sentence to the most probable legal labels (Viterbi)."""
    starts, follows = legal_transitions(classes)
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
