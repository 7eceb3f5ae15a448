"""How sentences are grouped into requests: every limit of the server is kept."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from elmo_client import CannotSend
from elmo_client.batches import EmbedRequest, RequestBatches, TextBatches
from elmo_client.selection import Selection

LIMITS = {
    "max_batch_tokens": 1_000,
    "max_queue_tokens": 100_000,
    "max_request_sentences": 1_000,
    "max_sentence_tokens": 10,
    "max_body_bytes": 100_000,
    "max_answer_bytes": 1_000_000,
}

HEAD = '{"pooling":"none","dtype":"float32","sentences":['


def batches(in_flight: int = 1, **limits: int) -> RequestBatches:
    info = {"layers": 3, "dimension": 4, "limits": {**LIMITS, **limits}}
    selection = Selection.of()
    return RequestBatches(info, selection, in_flight)


def sizes(requests: Any) -> list[int]:
    return [request.count for request in requests]


def test_the_body_holds_the_options_and_the_sentences() -> None:
    (request,) = batches().cut([["a", "é"], []])

    assert (request.first, request.count) == (0, 2)
    assert json.loads(request.body) == {
        "pooling": "none",
        "dtype": "float32",
        "sentences": [["a", "é"], []],
    }
    assert list(batches().cut([])) == []


def test_options_may_be_numpy_arrays_and_are_checked_before_anything_is_sent() -> None:
    info = {"layers": 3, "dimension": 4, "limits": LIMITS}

    def body(weights: Any) -> Any:
        mix = {"weights": weights, "gamma": np.float32(0.5)}
        selection = Selection.of(mix=mix)
        (request,) = RequestBatches(info, selection, 1).cut([["a"]])
        return json.loads(request.body)

    assert body(np.array([1.0, 2.0]))["mix"] == {"weights": [1, 2], "gamma": 0.5}
    with pytest.raises(CannotSend, match="options"):
        body({1, 2})


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"max_request_sentences": 4}, [4, 4, 2]),
        ({"max_batch_tokens": 6}, [4, 4, 2]),  # 12 tokens a request, 3 a sentence
        ({"max_queue_tokens": 15, "in_flight": 2}, [2, 2, 2, 2, 2]),
        ({"max_answer_bytes": 4 * 48}, [4, 4, 2]),  # 3 layers of 4 float32 numbers a token
        ({"max_answer_bytes": 4 * 48, "in_flight": 2}, [2, 2, 2, 2, 2]),
        ({"max_body_bytes": len(HEAD) + 3 * 6 + 1}, [3, 3, 3, 1]),  # ["a"] and a comma or bracket
    ],
)
def test_a_request_ends_at_the_first_limit(limits: dict[str, int], expected: list[int]) -> None:
    requests = list(batches(**limits).cut([["a"]] * 10))

    assert sizes(requests) == expected
    assert [request.first for request in requests] == [
        sum(expected[:place]) for place in range(len(expected))
    ]
    assert all(len(each.body) <= limits.get("max_body_bytes", 10**6) for each in requests)


def test_a_body_may_reach_its_limit_exactly() -> None:
    (whole,) = batches().cut([["abc"], ["d"]])

    assert sizes(batches(max_body_bytes=len(whole.body)).cut([["abc"], ["d"]])) == [2]
    assert sizes(batches(max_body_bytes=len(whole.body) - 1).cut([["abc"], ["d"]])) == [1, 1]


@pytest.mark.parametrize(
    ("sentence", "limits", "message"),
    [
        (["x" * 990], {"max_body_bytes": 1_000}, "sentence 1 makes a request of"),
        ("The cat", {}, "sentence 1 is the string"),
        (["\ud800"], {}, "sentence 1 cannot be written as JSON"),
    ],
)
def test_a_sentence_that_fits_into_no_request_is_refused(
    sentence: Any, limits: dict[str, int], message: str
) -> None:
    collected = batches(**limits)
    collected.add(["fine"])

    with pytest.raises(CannotSend, match=message):
        collected.add(sentence)


@pytest.mark.parametrize(
    ("tokenizer", "default", "expected"),
    [
        (None, "ptb", [2]),  # 90 characters: 31 tokens, with boundaries 66 of two
        ("characters", "ptb", [1, 1]),
        (None, "characters", [1, 1]),
        ("ptb", "characters", [2]),
    ],
)
def test_the_tokens_of_a_text_are_estimated_by_its_tokenizer(
    tokenizer: str | None, default: str, expected: list[int]
) -> None:
    limits = {**LIMITS, "max_sentence_tokens": 100, "max_queue_tokens": 180}
    info = {"layers": 3, "dimension": 4, "limits": limits, "tokenizer": default}
    selection = Selection.of().with_members(tokenizer=tokenizer)

    assert sizes(TextBatches(info, selection, 1).cut(["x" * 90] * 2)) == expected


def test_a_text_is_not_refused_by_an_estimate() -> None:
    """One word of 3,000 letters is one token: the server counts, and its limit decides."""
    info = {
        "layers": 3,
        "dimension": 4,
        "limits": {**LIMITS, "max_sentence_tokens": 1_000, "max_answer_bytes": 400},
        "tokenizer": "ptb",
    }
    selection = Selection.of()

    assert sizes(TextBatches(info, selection, 1).cut(["x" * 3_000])) == [1]


def test_add_returns_the_request_before() -> None:
    collected = batches(max_request_sentences=1)

    assert collected.add(["a"]) is None
    first = collected.add(["b"])
    assert isinstance(first, EmbedRequest) and first.first == 0
    last = collected.rest()
    assert last is not None and last.first == 1
    assert collected.rest() is None
