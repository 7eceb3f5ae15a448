"""A faulty body is refused with the place, the value and the allowed values of each fault."""

from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from elmo_serve.errors import InvalidRequest
from elmo_serve.http.schemas.embed import EmbedRequest
from elmo_serve.schema import prepared, validated
from elmo_serve.tasks import TaskMembers


def faults(model: type[BaseModel], body: Any) -> dict[str, str]:
    """Return the faults of a body: its details by pointer."""
    with pytest.raises(InvalidRequest) as refusal:
        validated(model, orjson.dumps(body))
    return {error.pointer: error.detail for error in refusal.value.errors}


def embed(**members: Any) -> dict[str, Any]:
    return {"sentences": [["a"]], **members}


@pytest.mark.parametrize(
    ("body", "pointer", "detail"),
    [
        (
            embed(layers="topp"),
            "/layers",
            "must be 'all', 'top', 'average', 'sum', 'concat', the number of a layer or a list of "
            "numbers; found 'topp'",
        ),
        (
            embed(mix={"weights": [0], "scale": 2}),
            "/mix/scale",
            "is no field, expected weights, gamma, layer_norm; found 2",
        ),
        (
            embed(mix=[1, 2]),
            "/mix",
            "should be an object with weights, gamma, layer_norm; found a list of 2 items",
        ),
    ],
)
def test_only_the_branch_of_the_union_that_was_meant_is_reported(
    body: Any, pointer: str, detail: str
) -> None:
    """`layers` is a name, a number or a list: pydantic would report a fault for each branch."""
    assert faults(EmbedRequest, body) == {pointer: detail}


def test_a_misspelt_field_is_named_before_the_one_that_is_missing() -> None:
    with pytest.raises(InvalidRequest) as caught:
        validated(TaskMembers, b'{"name": "t", "weight": [1, 2, 3], "gamma": "x"}')

    assert caught.value.detail.startswith("/weight: is no field, expected")
    assert [each.pointer for each in caught.value.errors] == ["/weight", "/weights", "/gamma"]


def test_at_most_twenty_faults_are_listed() -> None:
    with pytest.raises(InvalidRequest, match=r"^/weights/0: .* \(the first 20 are listed\)$") as e:
        validated(TaskMembers, orjson.dumps({"name": "t", "weights": ["x"] * 25}))

    assert [error.pointer for error in e.value.errors] == [f"/weights/{n}" for n in range(20)]


NAMES = {f"name{number}": 0 for number in range(101)}


@pytest.mark.parametrize("body", [NAMES, embed(mix=NAMES), embed(text=[{"a": [NAMES]}])])
def test_an_object_with_too_many_members_is_refused_whatever_they_are(body: Any) -> None:
    with pytest.raises(InvalidRequest, match="101 members"):
        prepared(orjson.dumps(body))


def test_members_are_not_counted_in_strings() -> None:
    body = orjson.dumps(embed(sentences=[["a: b", "::"] * 1_000]))

    assert prepared(body) == body
