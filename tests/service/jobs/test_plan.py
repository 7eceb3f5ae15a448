"""The rows of the vector file: where each sentence begins, and which row a place has."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_model.tasks.examples import Place
from elmo_serve.jobs.bodies import read_fit
from elmo_serve.jobs.plan import ALL_TOKENS, MEAN, FitLimits, FitRequest, FitSource, row_offsets_of

SOURCE = FitSource(False, FitLimits(1_000, 10_000, 100), "whitespace", "en")


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from([ALL_TOKENS, MEAN, 0, 3]))))
def test_rows_are_numbered_without_gaps(sentences: list[tuple[int, int]]) -> None:
    """Written the long way: one row a token, or one row a sentence."""
    expected = [0]
    for length, kept in sentences:
        expected.append(expected[-1] + (length if kept == ALL_TOKENS else 1))

    found = row_offsets_of([length for length, _ in sentences], [kept for _, kept in sentences])

    assert found == expected


def test_lengths_and_kept_rows_must_be_of_the_same_sentences() -> None:
    with pytest.raises(ValueError, match="shorter"):
        row_offsets_of([1, 2], [MEAN])


def test_a_plan_has_the_sentences_of_both_parts_and_their_owners() -> None:
    examples = [
        {"tokens": ["a", "b"], "labels": ["x", "y"]},
        {"tokens": ["c"], "labels": ["x"]},
        {"tokens": ["d"], "labels": ["x"], "test": True},
    ]
    request = read_fit(json.dumps({"kind": "token", "examples": examples}).encode(), SOURCE)

    plan = request.plan()

    assert FitRequest.unpacked(plan.request) == request
    assert [json.loads(sentence) for sentence in plan.sentences] == [["a", "b"], ["c"], ["d"]]
    assert (plan.lengths, plan.tokens, plan.examples) == ([2, 1, 1], 4, 4)
    assert plan.example_of == [0, 1, 2]
    assert request.row_of(plan.row_offsets, Place(0, 1)) == 1
    assert request.row_of(plan.row_offsets, Place(2, 0)) == 3
