"""The models of request bodies: numbers, names, defaults."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from elmo_serve.http.schemas import TASK_NAME_RULE, EmbedRequest, Mix, TaskBody
from elmo_serve.output import MAX_FLOAT32, MAX_GAMMA


def test_fields_that_were_not_sent_have_their_defaults() -> None:
    request = EmbedRequest.model_validate_json(b'{"sentences": []}')

    assert (request.layers, request.pooling, request.dtype) == ("all", "none", "float32")
    assert request.model_fields_set == {"sentences"}
    mix = Mix.model_validate_json(b'{"weights": [0]}')
    assert (mix.gamma, mix.layer_norm) == (1.0, False)


def test_a_whole_number_may_be_written_with_a_point() -> None:
    request = EmbedRequest.model_validate_json(b'{"sentences": [], "layers": [1.0, 2]}')

    assert request.layers == [1, 2]


@pytest.mark.parametrize(
    ("model", "members"),
    [
        (Mix, {"weights": []}),
        (Mix, {"weights": [True]}),
        (Mix, {"weights": ["1"]}),
        (Mix, {"weights": [2 * MAX_FLOAT32]}),
        (Mix, {"weights": [0], "gamma": MAX_GAMMA + 1}),
        (Mix, {"weights": [0], "layer_norm": 1}),
        (Mix, {"weights": [0], "scale": 1}),
        (EmbedRequest, {"sentences": [["a", 1]]}),
        (EmbedRequest, {"sentences": [], "layers": [1.5]}),
        (EmbedRequest, {"sentences": [], "layers": [-1]}),
        (EmbedRequest, {"sentences": [], "task": None}),
        (TaskBody, {"weights": [0], "name": ""}),
        (TaskBody, {"weights": [0], "description": "x" * 1_001}),
    ],
)
def test_a_wrong_value_is_refused(model: type[BaseModel], members: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model.model_validate(members)


def test_the_rule_of_names_is_the_one_of_the_pattern() -> None:
    allowed = set(map(chr, range(128))) - set(" ")
    for character in sorted(allowed):
        for name in (character, "a" + character):
            try:
                TaskBody.model_validate({"weights": [0], "name": name})
                is_valid = True
            except ValidationError:
                is_valid = False
            assert is_valid == (character.isalnum() or (len(name) == 2 and character in "._-")), (
                TASK_NAME_RULE
            )
