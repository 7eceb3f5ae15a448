"""Checks of sentences: the message tells a newcomer what to do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from elmo_client import CannotSend
from elmo_client.transport.requests import check_sentence, refuse_text


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("The cat", r"^sentence 1 is the string 'The cat'; expected its tokens: .*text\.split\(\)"),
        (b"The cat", "sentence 1 is the string b'The cat'"),
        (["a", 3], "token 1 of sentence 1 is 3, not a string"),
        (["a", math.nan], "token 1 of sentence 1 is nan, not a string"),
        (math.nan, "sentence 1 is nan, not a list of tokens"),
        (None, "sentence 1 is None, not a list of tokens"),
        (iter(["a", "b"]), "sentence 1 is <list_iterator object .*>, not a list of tokens"),
    ],
)
def test_other_things_than_lists_of_strings_are_refused(sentence: Any, message: str) -> None:
    with pytest.raises(CannotSend, match=message):
        check_sentence(sentence, 1)


def test_a_string_for_all_sentences_is_refused() -> None:
    with pytest.raises(CannotSend, match=r"sentences is the string 'The cat'.*text\.split\(\)"):
        refuse_text("The cat")


def test_sequences_of_strings_pass() -> None:
    sequences: list[Any] = [["a", ""], (), ("a",), np.array(["a", "b"])]
    for sentence in sequences:
        check_sentence(sentence)
        refuse_text([sentence])
