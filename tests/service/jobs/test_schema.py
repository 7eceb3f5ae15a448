"""The models of a fit's body: defaults, and the bounds of every option."""

from typing import Any

import pytest
from pydantic import ValidationError

from elmo_serve.jobs.schema import MAX_LABEL_CHARACTERS, MOST_SEEDS, FitBody, FitOptionsBody

EXAMPLES: list[dict[str, Any]] = [{"tokens": ["a"], "label": "x"}, {"text": "b", "label": "y"}]


def test_options_that_were_not_sent_have_their_defaults() -> None:
    found = FitBody.model_validate({"kind": "sentence", "examples": EXAMPLES})

    assert (found.validation, found.seeds, found.layer_norm) == (0.1, 3, False)
    assert (found.l2_weights, found.dropout) == (0.001, 0.0)
    assert "tokenizer" not in found.model_fields_set
    assert [example.test for example in found.examples] == [False, False]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("kind", "span"),
        ("validation", 0),
        ("validation", 1.0),
        ("seeds", 0),
        ("seeds", MOST_SEEDS + 1),
        ("seeds", 1.5),
        ("layer_norm", "yes"),
        ("l2_weights", -0.1),
        ("l2_weights", float("nan")),
        ("dropout", 1.0),
        ("unknown", 1),
    ],
)
def test_an_option_out_of_its_bounds_is_named(option: str, value: Any) -> None:
    with pytest.raises(ValidationError) as found:
        FitOptionsBody.model_validate({"kind": "token", option: value})

    assert [error["loc"] for error in found.value.errors()] == [(option,)]


@pytest.mark.parametrize(
    "example",
    [
        {"tokens": "a b", "label": "x"},
        {"tokens": ["a"], "label": ""},
        {"tokens": ["a"], "label": "x" * (MAX_LABEL_CHARACTERS + 1)},
        {"tokens": ["a"], "labels": ["x", 1.5]},
        {"tokens": ["a"], "token": -1, "label": "x"},
        {"tokens": ["a"], "label": "x", "test": 1},
        {"tokens": ["a"], "label": "x", "weight": 2},
    ],
)
def test_a_wrong_example_is_pointed_to(example: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as found:
        FitBody.model_validate({"kind": "token", "examples": [*EXAMPLES, example]})

    assert {error["loc"][:2] for error in found.value.errors()} == {("examples", 2)}
