"""The sides of pairs as POST /similarity takes them, and its cosines."""

from typing import Any

import numpy as np
import pytest

from elmo_client import BadAnswer
from elmo_client.transport.requests import members_of
from elmo_client.transport.responses import cosines_of


@pytest.mark.parametrize(
    ("side", "members"),
    [
        ("The bank", {"text": "The bank", "token": None}),
        (["the", "river"], {"tokens": ["the", "river"], "token": None}),
        (("the", "river"), {"tokens": ("the", "river"), "token": None}),
        (("The bank", 1), {"text": "The bank", "token": 1}),
        ((["the", "river"], 0), {"tokens": ["the", "river"], "token": 0}),
    ],
)
def test_a_side_is_a_text_or_tokens_with_or_without_a_place(
    side: Any, members: dict[str, Any]
) -> None:
    assert members_of(side) == members


def test_cosines_are_one_array_a_layer() -> None:
    found = cosines_of({"cosine": {"0": [1, 0.5], "average": [0, 1]}})

    np.testing.assert_array_equal(found["0"], [1, 0.5])
    for wrong in ({}, {"cosine": {"0": "x"}}, {"cosine": [1, 2]}):
        with pytest.raises(BadAnswer):
            cosines_of(wrong)
