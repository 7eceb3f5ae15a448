"""Checks of sentences: the message tells a newcomer what to do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from elmo_client import CannotSend
from elmo_client.batches import check_sentence, check_sentences


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("The cat", r"^sentence 1 is the string 'The cat'; expected its tokens: .*text\.split\(\)"),
        (b"The cat", "sentence 1 is the string b'The cat'"),
        (["a", 3], "token 1 of sentence 1 is 3, not a string"),
        (["a", math.nan], "token 1 of sentence 1 is nan, not a string"),
        (math.nan, "sentence 1 is nan, not a list of tokens"),
        ({"bank"}, "sentence 1 is {'bank'}, not a list of tokens"),
        ({"bank": 1}, "sentence 1 is {'bank': 1}, not a list of tokens"),
        (None, "sentence 1 is None, not a list of tokens"),
        (iter(["a", "b"]), "sentence 1 is <list_iterator object .*>, not a list of tokens"),
    ],
)
def test_other_things_than_lists_of_strings_are_refused(sentence: Any, message: str) -> None:
    with pytest.raises(CannotSend, match=message):
        check_sentence(sentence, "sentence 1")


@pytest.mark.parametrize(
    ("sentences", "found"),
    [
        ("The cat", "'The cat'"),
        ({"first": ["The", "cat"]}, "a dict"),
        (pd.DataFrame({"text": ["The cat"]}), "a DataFrame"),
        (None, "None"),
    ],
)
def test_other_things_than_several_sentences_are_refused(sentences: Any, found: str) -> None:
    expected = "expected an iterable of sentences, each a list of tokens"
    with pytest.raises(CannotSend, match=rf"^sentences is {found}; {expected}.*text\.split\(\)"):
        check_sentences(sentences)


def test_sequences_of_strings_pass() -> None:
    sequences: list[Any] = [["a", ""], (), ("a",), np.array(["a", "b"])]
    for sentence in sequences:
        check_sentence(sentence, "sentence 1")
        check_sentences([sentence])
