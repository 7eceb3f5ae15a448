"""Labels of spans: one form for the forms of files, and legal sequences."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_model.tasks.spans import Span, are_spans, best_legal, iob2, legal_transitions, spans

# Computed once by seqeval 1.2.2: `get_entities` (default), and `Entities` with IOBES and BILOU.
SEQEVAL: list[tuple[str, str, list[Span]]] = [
    ("default", "B-x I-x O", [(0, 2, "x")]),
    ("default", "I-x I-x O", [(0, 2, "x")]),
    ("default", "O I-x I-y", [(1, 2, "x"), (2, 3, "y")]),
    ("default", "B-x B-x I-x", [(0, 1, "x"), (1, 3, "x")]),
    ("default", "I-x B-x I-x", [(0, 1, "x"), (1, 3, "x")]),
    ("default", "B-x I-y I-y", [(0, 1, "x"), (1, 3, "y")]),
    ("default", "I-x O I-x", [(0, 1, "x"), (2, 3, "x")]),
    ("default", "B I O", [(0, 2, "")]),
    ("default", "I B I", [(0, 1, ""), (1, 3, "")]),
    ("default", "I O B B", [(0, 1, ""), (2, 3, ""), (3, 4, "")]),
    ("default", "B-a-b I-a-b I-a", [(0, 2, "a-b"), (2, 3, "a")]),
    ("default", "I-x I-x B-x O B-y", [(0, 2, "x"), (2, 3, "x"), (4, 5, "y")]),
    ("default", "O O", []),
    ("default", "B-x", [(0, 1, "x")]),
    ("default", "O I I O I", [(1, 3, ""), (4, 5, "")]),
    ("default", "B-x O I-x", [(0, 1, "x"), (2, 3, "x")]),
    ("IOBES", "S-x O B-y E-y", [(0, 1, "x"), (2, 4, "y")]),
    ("IOBES", "B-x I-x E-x S-x", [(0, 3, "x"), (3, 4, "x")]),
    ("IOBES", "S-x S-x S-y", [(0, 1, "x"), (1, 2, "x"), (2, 3, "y")]),
    ("IOBES", "B-x E-x B-x E-x", [(0, 2, "x"), (2, 4, "x")]),
    ("IOBES", "B-x I-x I-x E-x O S-y", [(0, 4, "x"), (5, 6, "y")]),
    ("IOBES", "O S-x O", [(1, 2, "x")]),
    ("BILOU", "U-x O B-y L-y", [(0, 1, "x"), (2, 4, "y")]),
    ("BILOU", "B-x I-x L-x U-x", [(0, 3, "x"), (3, 4, "x")]),
    ("BILOU", "U-x U-x U-y", [(0, 1, "x"), (1, 2, "x"), (2, 3, "y")]),
    ("BILOU", "B-x L-x B-x L-x", [(0, 2, "x"), (2, 4, "x")]),
    ("BILOU", "B-x I-x I-x L-x O U-y", [(0, 4, "x"), (5, 6, "y")]),
    ("BILOU", "O U-x O", [(1, 2, "x")]),
]
CLASSES = ("B-a", "B-b", "I-a", "I-b", "O")


@pytest.mark.parametrize(("mode", "labels", "expected"), SEQEVAL)
def test_spans_are_those_of_seqeval(mode: str, labels: str, expected: list[Span]) -> None:
    assert sorted(spans(labels.split())) == expected, mode


@given(st.lists(st.sampled_from(["O", "B", "I", *(f"{p}-{t}" for p in "BIESLUM" for t in "ab")])))
def test_iob2_keeps_the_spans_and_is_legal(labels: list[str]) -> None:
    found = iob2(labels)

    assert spans(found) == spans(labels)
    assert iob2(found) == found
    for before, after in itertools.pairwise(["O", *found]):
        assert after[0] != "I" or (before != "O" and before[1:] == after[1:])


@pytest.mark.parametrize(
    "labels",
    ["I-x I-x O I-x I-y", "B-x I-x O B-x B-y", "B-x E-x O S-x S-y", "B-x L-x O U-x U-y"],
    ids=["IOB1 and IO", "IOB2", "BIOES", "BILOU"],
)
def test_every_form_becomes_iob2(labels: str) -> None:
    assert iob2(labels.split()) == ["B-x", "I-x", "O", "B-x", "B-y"]


def test_a_label_that_is_none_of_a_span_is_outside() -> None:
    assert iob2(["B-a", "MISC", "I-a", "b-a"]) == ["B-a", "O", "B-a", "O"]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"I-PER": 300, "B-PER": 1, "O": 9_000}, True),
        ({"B": 5, "I": 5, "O": 1}, True),
        ({"S-a": 5, "E-a": 5, "M-b": 1, "U-": 1}, True),
        ({"B-a": 99, "MISC": 1, "O": 1}, True),
        ({"B-a": 98, "MISC": 2, "O": 1_000}, False),
        ({"O": 3}, False),
        ({"NOUN": 3, "O": 3, "B-a": 1}, False),
        ({"S": 5, "E": 5}, False),
        ({"B-a": 3, "0": 9}, False),
    ],
)
def test_labels_are_spans_if_99_of_100_are(counts: dict[str, int], expected: bool) -> None:
    assert are_spans(counts) is expected


def is_legal(labels: list[int]) -> bool:
    before = "O"
    for number in labels:
        label = CLASSES[number]
        if label.startswith("I-") and (before == "O" or before[2:] != label[2:]):
            return False
        before = label
    return True


@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_the_best_legal_sequence_is_that_of_a_search_over_all(length: int, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(length, 5)).astype(np.float32)

    found = best_legal(scores, legal_transitions(CLASSES))

    legal = [list(s) for s in itertools.product(range(5), repeat=length) if is_legal(list(s))]
    totals = [sum(float(scores[i, c]) for i, c in enumerate(s)) for s in legal]
    assert found in legal
    total = sum(float(scores[i, c]) for i, c in enumerate(found))
    assert total == pytest.approx(max(totals), abs=1e-5)


def test_labels_without_a_type_have_their_own_legal_sequences() -> None:
    starts, follows = legal_transitions(("B", "I", "O"))

    assert starts.tolist() == [True, False, True]
    assert follows[:, 1].tolist() == [True, True, False] and follows[:, ::2].all()
