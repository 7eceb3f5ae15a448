"""The comparison of responses with the first one, in every media type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from elmo_serve.http.media_types import ENCODERS
from elmo_serve.http.media_types.encoder import Embeddings
from elmo_serve.load_test.workload import TOLERANCES, Checker
from elmo_serve.output import Dtype, Output

SAFE = "application/vnd.safetensors"
OUTPUT = Output(layers=(0, 1), stacked=True)
LENGTHS = (2, 0)


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
    difference = Checker(media_type, output, 3, TOLERANCES[dtype]).of(LENGTHS)
    moved = vectors()
    moved[0][1, 1, 2] += 4 * TOLERANCES[dtype]  # the largest number of the sentence is 2

    found = [
        difference(encoded([array.astype(dtype) for array in arrays], media_type, dtype))
        for arrays in (vectors(), vectors(), moved)
    ]

    assert found[:2] == [None, 0]
    assert found[2] == pytest.approx(2, rel=0.5)  # float16 rounds 2.004 to a multiple of 0.00195


def test_each_request_has_a_reference_of_its_own() -> None:
    checker = Checker(SAFE, OUTPUT, 3, 1e-5)
    first, second = checker.of(LENGTHS), checker.of(LENGTHS)

    assert [first(encoded(vectors())), first(encoded(vectors()))] == [None, 0]
    assert second(encoded(vectors())) is None


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
    difference = Checker(SAFE, OUTPUT, 3, 1e-5).of(LENGTHS)

    assert difference(content) == math.inf
    assert difference(encoded(vectors())) is None, "it is no reference"


def test_beyond_the_kept_bytes_nothing_is_compared() -> None:
    checker = Checker(SAFE, OUTPUT, 3, 1e-5, kept_bytes=4 * vectors()[0].size)
    first, second = checker.of(LENGTHS), checker.of(LENGTHS)

    assert [first(encoded(vectors())), first(encoded(vectors()))] == [None, 0]
    assert [second(encoded(vectors())), second(encoded(vectors()))] == [None, None]


def test_zeros_are_compared_exactly() -> None:
    pooled = Output(layers=(0, 1), stacked=True, pooling="mean")
    difference = Checker(SAFE, pooled, 3, 1e-5).of([0])
    zeros = encoded([np.zeros((2, 3), np.float32)])

    assert [difference(zeros), difference(zeros)] == [None, 0]
    assert difference(encoded([np.full((2, 3), 1e-9, np.float32)])) == math.inf
