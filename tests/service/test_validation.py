"""A faulty body is refused with the place of each fault and the words of pydantic."""

from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from elmo_serve.errors import InvalidRequest
from elmo_serve.http.schemas.embed import EmbedRequest
from elmo_serve.tasks import TaskMembers
from elmo_serve.validation import refuse_wide, validated


def faults(model: type[BaseModel], body: Any) -> dict[str, str]:
    """Return the faults of a body, parsed or not: its details by pointer."""
    found = []
    for each in (body, orjson.dumps(body)):
        with pytest.raises(InvalidRequest) as refusal:
            validated(model, each)
        found.append({error.pointer: error.detail for error in refusal.value.errors})
    assert found[0] == found[1]
    return found[0]


def embed(**members: Any) -> dict[str, Any]:
    return {"sentences": [["a"]], **members}


@pytest.mark.parametrize(
    ("body", "pointer", "detail"),
    [
        (embed(layers="topp"), "/layers", "number"),
        (embed(layers={}), "/layers", "'concat'"),
        (embed(layers=[0, "x"]), "/layers/1", "integer"),
        (embed(mix={"weights": [0], "scale": 2}), "/mix/scale", ""),
        (embed(mix=[1, 2]), "/mix", "object"),
    ],
)
def test_only_the_branch_of_the_union_that_was_meant_is_reported(
    body: Any, pointer: str, detail: str
) -> None:
    """`layers` is a name, a number or a list: pydantic would report a fault for each branch."""
    found = faults(EmbedRequest, body)

    assert list(found) == [pointer] and detail in found[pointer]


NULLS = {"text", "tokenizer", "model", "layers", "task", "mix", "pooling", "dtype", "normalize"}


def test_a_field_that_may_be_left_out_may_be_null() -> None:
    schema = EmbedRequest.model_json_schema()
    for name, field in schema["properties"].items():
        assert {"type": "null"} in field["anyOf"], name

    body = embed(**dict.fromkeys(NULLS))
    assert validated(EmbedRequest, body).sentences == [["a"]]


def test_a_null_beside_a_number_out_of_range_is_no_fault() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        validated(EmbedRequest, b'{"model": null, "mix": {"weights": [1e400]}, "task": null}')

    assert [error.pointer for error in refusal.value.errors] == ["/mix/weights/0"]


def test_a_misspelt_field_is_named_before_the_one_that_is_missing() -> None:
    with pytest.raises(InvalidRequest) as caught:
        validated(TaskMembers, {"name": "t", "weight": [1, 2, 3], "gamma": "x"})

    assert caught.value.detail.startswith("/weight: ")
    assert [each.pointer for each in caught.value.errors] == ["/weight", "/weights", "/gamma"]


def test_at_most_twenty_faults_are_listed() -> None:
    with pytest.raises(InvalidRequest, match=r"^/weights/0: .* \(the first 20 are listed\)$") as e:
        validated(TaskMembers, {"name": "t", "weights": ["x"] * 25})

    assert [error.pointer for error in e.value.errors] == [f"/weights/{n}" for n in range(20)]


NAMES = {f"name{number}": 0 for number in range(101)}


@pytest.mark.parametrize("body", [NAMES, embed(mix=NAMES)])
def test_an_object_with_too_many_members_is_refused_whatever_they_are(body: Any) -> None:
    with pytest.raises(InvalidRequest, match="101 members"):
        refuse_wide(body)


def test_members_are_not_counted_in_other_places() -> None:
    refuse_wide(embed(sentences=[["a: b", "::"] * 1_000], text=[{"a": [NAMES]}]))
