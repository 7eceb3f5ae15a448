"""The options of a call: members of the request, and the size of the response."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from elmo_client import CannotSend
from elmo_client.selection import Selection


def selected(**options: Any) -> Selection:
    return Selection.of(**options)


@pytest.mark.parametrize(
    ("options", "members", "size"),
    [
        ({}, {}, 3 * 5 * 8 * 4),
        ({"layers": "all"}, {"layers": "all"}, 3 * 5 * 8 * 4),
        ({"layers": "top"}, {"layers": "top"}, 5 * 8 * 4),
        ({"layers": (0, 2)}, {"layers": (0, 2)}, 2 * 5 * 8 * 4),
        ({"layers": 1}, {"layers": 1}, 5 * 8 * 4),
        ({"layers": np.int64(0)}, {"layers": 0}, 5 * 8 * 4),
        ({"layers": np.array([1])}, {"layers": [1]}, 5 * 8 * 4),
        ({"layers": np.array([0, 2])}, {"layers": [0, 2]}, 2 * 5 * 8 * 4),
        ({"task": "ner", "dtype": "float16"}, {"task": "ner"}, 5 * 8 * 2),
        ({"dtype": np.float16}, {"dtype": "float16"}, 3 * 5 * 8 * 2),
        ({"dtype": np.dtype("float32")}, {"dtype": "float32"}, 3 * 5 * 8 * 4),
        ({"mix": [1, 2, 3]}, {"mix": {"weights": [1, 2, 3]}}, 5 * 8 * 4),
        ({"mix": {"weights": [1], "gamma": 2}}, {"mix": {"weights": [1], "gamma": 2}}, 5 * 8 * 4),
        ({"pooling": "mean"}, {}, 3 * 8 * 4),
        ({"layers": "sum"}, {"layers": "sum"}, 5 * 8 * 4),
        ({"layers": "concat"}, {"layers": "concat"}, 5 * 3 * 8 * 4),
        ({"layers": "top", "normalize": True}, {"layers": "top", "normalize": True}, 5 * 8 * 4),
        ({"normalize": "no"}, {"normalize": "no"}, 3 * 5 * 8 * 4),  # the server refuses it
        ({"normalize": False}, {"normalize": False}, 3 * 5 * 8 * 4),
    ],
)
def test_members_and_size(options: Any, members: dict[str, Any], size: int) -> None:
    found = selected(**options)

    dtype = np.dtype(options.get("dtype", "float32")).name
    usual = {"pooling": options.get("pooling", "none"), "dtype": dtype}
    assert found.members == {**members, **usual}
    assert found.response_bytes(tokens=5, dimension=8, model_layers=3) == size


@pytest.mark.parametrize("options", [{"layers": "top", "task": "ner"}, {"task": "n", "mix": [1]}])
def test_options_that_exclude_each_other_are_refused(options: Any) -> None:
    with pytest.raises(CannotSend, match="at most one"):
        selected(**options)
