"""The comparison of responses with a reference, in every media type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from elmo_serve.http.media_types import ENCODERS
from elmo_serve.http.media_types.encoder import Embeddings
from elmo_serve.load_test.checker import TOLERANCES, Checker
from elmo_serve.load_test.workload import Body
from elmo_serve.output import Dtype, Output

SAFE = "application/vnd.safetensors"
OUTPUT = Output(layers=(0, 1), stacked=True)
BODY = Body(b"{}", (["a", "b"], []), 2)


def vectors(dtype: str = "float32") -> list[NDArray[Any]]:
    return [
        np.linspace(-1, 2, 2 * 2 * 3).reshape(2, 2, 3).astype(dtype),
        np.zeros((2, 0, 3), dtype),
    ]


def encoded(
    arrays: Sequence[NDArray[Any]], media_type: str = SAFE, dtype: Dtype = "float32"
) -> bytes:
    sentences = [b'["a","b"]', b"[]"][: len(arrays)]
    answer = Embeddings("m", "0", 3, (0, 1), 2, arrays, sentences, (2, -1, 3), dtype)
    return b"".join(ENCODERS[media_type].encode(answer))


@pytest.mark.parametrize("media_type", ENCODERS)
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_a_difference_is_in_tolerances(media_type: str, dtype: Dtype) -> None:
    output = Output(layers=(0, 1), stacked=True, dtype=dtype)
    checker = Checker(media_type, output, 3, TOLERANCES[dtype])
    assert checker.expect(0, vectors())
    moved = vectors()
    moved[0][1, 1, 2] += 4 * TOLERANCES[dtype]  # the largest number of the sentence is 2

    same = checker.difference(0, BODY, encoded(vectors(dtype), media_type, dtype))
    other = checker.difference(
        0, BODY, encoded([a.astype(dtype) for a in moved], media_type, dtype)
    )

    assert same is not None and same <= 0.5
    assert other == pytest.approx(2, rel=0.3)


def test_the_first_response_is_the_reference_of_the_others() -> None:
    checker = Checker(SAFE, OUTPUT, 3, 1e-5)

    assert checker.difference(0, BODY, encoded(vectors())) is None
    assert checker.difference(0, BODY, encoded(vectors())) == 0
    assert checker.difference(1, BODY, encoded(vectors())) is None


@pytest.mark.parametrize(
    "content",
    [
        b"no vectors",
        encoded(vectors()[:1]),
        encoded([vectors()[0][:, :1], vectors()[1]]),
        encoded([vectors()[0] * np.float32("nan"), vectors()[1]]),
    ],
    ids=["damaged", "one sentence short", "a token short", "not finite"],
)
def test_a_first_response_that_cannot_be_right_is_wrong(content: bytes) -> None:
    checker = Checker(SAFE, OUTPUT, 3, 1e-5)

    assert checker.difference(0, BODY, content) == math.inf
    assert checker.difference(0, BODY, encoded(vectors())) is None, "it is no reference"


def test_beyond_the_kept_bytes_nothing_is_compared() -> None:
    checker = Checker(SAFE, OUTPUT, 3, 1e-5, kept_bytes=4 * vectors()[0].size)

    assert checker.expect(0, vectors())
    assert not checker.expect(1, vectors())
    assert checker.difference(1, BODY, encoded(vectors())) is None
    assert checker.difference(1, BODY, encoded(vectors())) is None


def test_zeros_are_compared_exactly() -> None:
    pooled = Output(layers=(0, 1), stacked=True, pooling="mean")
    body = Body(b"{}", ([],), 0)
    checker = Checker(SAFE, pooled, 3, 1e-5)
    checker.expect(0, [np.zeros((2, 3), np.float32)])

    assert checker.difference(0, body, encoded([np.zeros((2, 3), np.float32)])) == 0
    assert checker.difference(0, body, encoded([np.full((2, 3), 1e-9, np.float32)])) == math.inf
