"""Selections of layers and mixes: one meaning for HTTP requests, files and commands."""

import math
from dataclasses import replace
from typing import Any, get_args

import pytest

from elmo_serve.selection import NAMED, LayerName, Output, SelectionError, select, weights_fault


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ("all", Output(layers=(0, 1, 2), stacked=True)),
        ("top", Output(layers=(2,))),
        ("average", Output(weights=(0.0, 0.0, 0.0))),
        ("sum", Output(weights=(0.0, 0.0, 0.0), gamma=3.0)),
        ("concat", Output(layers=(0, 1, 2), concat=True)),
        ([2, 0], Output(layers=(2, 0), stacked=True)),
        ([1], Output(layers=(1,), stacked=True)),
        (1, Output(layers=(1,))),
    ],
)
def test_every_selection_means_one_output(layers: Any, expected: Output) -> None:
    assert select(layers, 3) == expected


def test_every_name_has_a_row_in_the_table() -> None:
    assert set(NAMED) == set(get_args(LayerName))


@pytest.mark.parametrize(
    ("layers", "pooling", "shape"),
    [
        ("all", "none", (3, 5, 8)),
        ("all", "mean", (3, 8)),
        ([1], "none", (1, 5, 8)),
        (1, "none", (5, 8)),
        ("top", "none", (5, 8)),
        ("average", "max", (8,)),
        ("sum", "none", (5, 8)),
        ("concat", "none", (5, 24)),
        ("concat", "mean", (24,)),
    ],
)
def test_shape_and_size_follow_the_selection(
    layers: Any, pooling: Any, shape: tuple[int, ...]
) -> None:
    output = replace(select(layers, 3, pooling=pooling), dtype="float16")

    assert output.shape(5, 8) == shape
    assert output.size(5, 8) == 2 * math.prod(shape)
    assert output.size(0, 8) == (0 if pooling == "none" else output.size(5, 8))


@pytest.mark.parametrize(
    ("layers", "pointers"),
    [
        ([3], ["/layers/0"]),
        ([0, 9, -1], ["/layers/1", "/layers/2"]),
        ([0, 1, 2, 0], ["/layers"]),
        (7, ["/layers"]),
        ("bottom", ["/layers"]),
    ],
)
def test_layers_that_the_model_lacks_are_refused_with_their_places(
    layers: Any, pointers: list[str]
) -> None:
    with pytest.raises(SelectionError, match="there are") as caught:
        select(layers, 3)

    assert [fault.pointer for fault in caught.value.faults] == pointers


def test_a_refusal_repeats_at_most_64_characters_of_a_number() -> None:
    with pytest.raises(SelectionError) as caught:
        select([10**4_000], 3)

    assert len(str(caught.value)) < 120


def test_a_refusal_lists_no_more_faults_than_the_model_has_layers() -> None:
    with pytest.raises(SelectionError) as caught:
        select([9] * 256, 3)

    assert len(caught.value.faults) == 4


def test_a_mix_is_checked_against_the_model() -> None:
    fault = weights_fault((1.0, 2.0), 3, at=("mix",))

    assert fault is not None
    assert fault.pointer == "/mix/weights"
    assert fault.detail == "found 2 numbers, this model takes 3, one a layer"
    assert weights_fault((0.0,) * 3, 3) is None
