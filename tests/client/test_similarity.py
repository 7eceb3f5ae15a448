"""Pairs as POST /similarity takes them, and its cosines."""

from typing import Any

import numpy as np
import orjson
import pytest

from elmo_client import BadAnswer, CannotSend
from elmo_client.transport.requests import json_bytes, similarity_body
from elmo_client.transport.responses import cosines_of


def sent(*pairs: Any, **options: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"tokenizer": None, "centred": False}
    body = json_bytes(similarity_body(pairs, **{**usual, **options}), "pairs")
    found: dict[str, Any] = orjson.loads(body)
    return found


def test_a_side_is_a_text_or_tokens_with_or_without_a_place() -> None:
    body = sent(
        ("The bank", ["the", "river"]),
        (("The bank", 1), (["the", "river"], 0)),
        [("a", "b"), {"text": "c", "token": 0}],
    )

    assert body == {
        "pairs": [
            [{"text": "The bank", "token": None}, {"tokens": ["the", "river"], "token": None}],
            [{"text": "The bank", "token": 1}, {"tokens": ["the", "river"], "token": 0}],
            [{"tokens": ["a", "b"], "token": None}, {"text": "c", "token": 0}],
        ]
    }


def test_a_place_is_a_whole_number_of_any_kind() -> None:
    body = sent((("a b", np.int64(1)), ("a b", np.uint8(0))))

    assert [side["token"] for side in body["pairs"][0]] == [1, 0]


def test_options_are_sent_when_they_are_given() -> None:
    assert sent(tokenizer="ptb", centred=True) == {
        "pairs": [],
        "tokenizer": "ptb",
        "centred": True,
    }


@pytest.mark.parametrize("pair", ["ab", ("a",), 3, ("a", 5)])
def test_another_form_is_refused(pair: Any) -> None:
    with pytest.raises(CannotSend):
        sent(pair)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (("The bank.", 1), "side 1 of pair 0 is 1; expected a text, a list of tokens, or one of"),
        (("a", [1]), "token 0 of side 1 of pair 0 is 1, not a string"),
        (
            (("The bank lends.", "bank"), "a"),
            r"side 0 of pair 0 is \('The bank lends.', 'bank'\); expected \(text, number of the",
        ),
        (("a", (["the", "bank"], "bank")), r"side 1 of pair 0 is .*; expected \(text, number of"),
    ],
)
def test_the_side_of_another_form_is_named(pair: Any, message: str) -> None:
    with pytest.raises(CannotSend, match=f"^{message}"):
        sent(pair)


def test_cosines_are_one_array_a_layer() -> None:
    found = cosines_of({"cosine": {"0": [1, 0.5], "average": [0, 1]}}, 2)

    np.testing.assert_array_equal(found["0"], [1, 0.5])
    for wrong in ({}, {"cosine": {"0": [1]}}, {"cosine": {"0": "x"}}, {"cosine": [1, 2]}):
        with pytest.raises(BadAnswer):
            cosines_of(wrong, 2)
