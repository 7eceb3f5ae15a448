"""A task and its mix: numbers, names, defaults."""

import string

from pydantic import ValidationError

from elmo_model.network.task import TASK_NAME_RULE
from elmo_serve.output import MAX_FLOAT32, MAX_GAMMA
from elmo_serve.tasks.schema import MAX_DESCRIPTION_CHARACTERS, MOST_LAYERS, TaskBody


def test_the_largest_values_are_accepted() -> None:
    body = TaskBody.model_validate(
        {
            "weights": [-MAX_FLOAT32, MAX_FLOAT32] * (MOST_LAYERS // 2),
            "gamma": -MAX_GAMMA,
            "name": "a" * 64,
            "description": "x" * MAX_DESCRIPTION_CHARACTERS,
        }
    )

    assert len(body.weights) == MOST_LAYERS


def test_the_rule_of_names_is_the_one_of_the_pattern() -> None:
    letters = string.ascii_letters + string.digits
    for character in set(map(chr, range(256))):
        for name in (character, "a" + character):
            try:
                TaskBody.model_validate({"weights": [0], "name": name})
                is_valid = True
            except ValidationError:
                is_valid = False
            allowed = letters if len(name) == 1 else letters + "._-"
            assert is_valid == (character in allowed), (name, TASK_NAME_RULE)
