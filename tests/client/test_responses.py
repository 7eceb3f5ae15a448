"""Responses that are not those of elmo-serve, whole or in part; pairs and neighbours."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import httpx
import numpy as np
import pytest
import safetensors.numpy

from elmo_client import BadAnswer, ModelChanged, Task
from elmo_client.batches import EmbedRequest
from elmo_client.responses import (
    MEDIA_TYPE,
    centre_of,
    json_of,
    task_of,
    vectors_of,
)
from elmo_model.network.task import Task as ServerTask
from elmo_serve.http.schemas.tasks import TaskResponse

INFO = {"revision": "r1", "precision": "float32"}
REQUEST = EmbedRequest(0, 2, b"")
BODY = safetensors.numpy.save(
    {"0": np.zeros((3, 2, 4), np.float32), "1": np.ones((3, 0, 4), np.float32)},
    INFO,
)


def response(body: bytes, media_type: str = MEDIA_TYPE) -> httpx.Response:
    request = httpx.Request("GET", "http://user:secret@host/info")
    return httpx.Response(200, content=body, headers={"content-type": media_type}, request=request)


def test_vectors_are_writable_arrays_in_order() -> None:
    found = vectors_of(response(BODY), REQUEST, INFO)

    assert [array.shape for array in found] == [(3, 2, 4), (3, 0, 4)]
    assert all(array.flags.writeable for array in found)


@pytest.mark.parametrize("cut", [0, 7, 40, len(BODY) - 1])
def test_a_body_that_is_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(BadAnswer, match="not safetensors"):
        vectors_of(response(BODY[:cut]), REQUEST, INFO)


def test_other_vectors_are_refused() -> None:
    with pytest.raises(BadAnswer, match="the response is text/html"):
        vectors_of(response(BODY, "text/html"), REQUEST, INFO)
    with pytest.raises(BadAnswer, match="2 arrays came for 3 sentences"):
        vectors_of(response(BODY), EmbedRequest(0, 3, b""), INFO)
    for other in ({"revision": "r0"}, {"precision": "int8"}):
        with pytest.raises(ModelChanged, match="to r1 in float32"):
            vectors_of(response(BODY), REQUEST, INFO | other)
    without = safetensors.numpy.save({"0": np.zeros(1, np.float32)})
    with pytest.raises(BadAnswer, match="not safetensors"):
        vectors_of(response(without), REQUEST, INFO)


def test_tasks() -> None:
    whole: dict[str, Any] = {
        "name": "ner",
        "weights": [0.5, 1.0],
        "gamma": 2.0,
        "layer_norm": False,
        "description": "",
    }

    assert task_of(whole) == Task("ner", (0.5, 1.0), 2.0)
    assert task_of(whole | {"fit": {"measure": "span_f1"}}).measure == "span_f1"
    assert json_of(response(b'{"a": 1}')) == {"a": 1}
    with pytest.raises(BadAnswer, match="gamma"):
        task_of({key: value for key, value in whole.items() if key != "gamma"})


def test_the_fields_of_a_task_and_their_defaults_are_those_of_the_server() -> None:
    own, theirs = (
        {each.name: each.default for each in fields(kind)} for kind in (Task, ServerTask)
    )

    assert own == theirs and own["weights"] is MISSING
    assert set(own) - {"measure"} <= set(TaskResponse.model_fields)


def test_a_centre_is_an_array_of_float32() -> None:
    found = centre_of({"layers": [[1, 0.5], [0, 1]]})

    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[1, 0.5], [0, 1]])
    for wrong in ({}, {"layers": [["x"]]}, {"layers": [[1, 2], [3]]}):
        with pytest.raises(BadAnswer):
            centre_of(wrong)
