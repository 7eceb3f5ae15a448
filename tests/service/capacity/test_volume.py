"""The bytes a token, by selection and media type."""

from __future__ import annotations

import pytest

from elmo_serve.capacity.volume import SELECTIONS, output_of, table
from elmo_serve.http.media_types import ENCODERS
from elmo_serve.output import Output

SAFE = "application/vnd.safetensors"


def test_bytes_are_those_of_the_numbers_and_a_little_more() -> None:
    found = table(3, 1_024, [24] * 8)

    assert set(found) == set(SELECTIONS) and set(found["all"]) == set(ENCODERS)
    exact = {"all": 3 * 1_024 * 4, "top": 1_024 * 4, "top, float16": 1_024 * 2}
    for selection, size in exact.items():
        for media_type in ENCODERS:
            if media_type != "application/json":
                assert size < found[selection][media_type] < 1.01 * size
    assert found["top, mean"][SAFE] == pytest.approx(1_024 * 4 / 24, rel=0.05)
    assert 2 < found["all"]["application/json"] / found["all"][SAFE] < 3.5


def test_a_row_names_its_output() -> None:
    assert output_of("all", 2) == Output(layers=(0, 1), stacked=True)
    assert output_of("top, float16", 3) == Output(layers=(2,), dtype="float16")
    assert output_of("top, mean", 3) == Output(layers=(2,), pooling="mean")
