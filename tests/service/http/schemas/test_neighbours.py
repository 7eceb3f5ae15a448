"""The schema of POST /neighbours and the parser accept and refuse the same bodies."""

from typing import Any

import orjson
import pytest

from elmo_serve.errors import InvalidRequest
from elmo_serve.http.request.parsing import RequestLimits
from elmo_serve.http.schemas.neighbours import NeighboursRequest
from elmo_serve.http.text.bodies import parse

LIMITS = RequestLimits(10, 10)


def test_the_example_is_read() -> None:
    (example,) = NeighboursRequest.model_json_schema()["examples"]

    body = parse(orjson.dumps(example), LIMITS, "/neighbours")

    assert body.options == NeighboursRequest(**example)
    assert body.sentences == [example["text"].encode()]


@pytest.mark.parametrize("layers", [0, 2, 1.0, "top", "average"])
def test_a_layer_has_a_number_or_a_name(layers: Any) -> None:
    body = orjson.dumps({"tokens": ["a"], "token": 0, "layers": layers})

    options = parse(body, LIMITS, "/neighbours").options

    assert isinstance(options, NeighboursRequest)
    assert options.layers == layers


@pytest.mark.parametrize("layers", [-1, 0.5, "all", "", True, [0], {}])
def test_nothing_else_is_a_layer(layers: Any) -> None:
    body = orjson.dumps({"tokens": ["a"], "token": 0, "layers": layers})

    with pytest.raises(InvalidRequest, match="must be 'top', 'average' or the number of a layer"):
        parse(body, LIMITS, "/neighbours")


@pytest.mark.parametrize("empty", [{"tokens": []}, {"tokens": None, "layers": None, "k": None}])
def test_null_and_an_empty_list_beside_a_text_count_as_left_out(empty: dict[str, Any]) -> None:
    body = parse(orjson.dumps({"text": "a", "token": 0, **empty}), LIMITS, "/neighbours")

    assert isinstance(body.options, NeighboursRequest)
    assert (body.sentences, body.options.layers, body.options.k) == ([b"a"], "top", 10)
