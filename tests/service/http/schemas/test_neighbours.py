"""The schema of POST /neighbours and the parser accept and refuse the same bodies."""

from typing import Any

import orjson
import pytest

from elmo_serve.http.calls.parse import RequestLimits, parse
from elmo_serve.http.schemas.neighbours import NeighboursRequest

LIMITS = RequestLimits(10, 10)


@pytest.mark.parametrize("layers", [0, 2, 1.0, "top", "average"])
def test_a_layer_has_a_number_or_a_name(layers: Any) -> None:
    body = orjson.dumps({"tokens": ["a"], "token": 0, "layers": layers})

    options = parse(NeighboursRequest, body, LIMITS).request

    assert options.layers == layers


@pytest.mark.parametrize("empty", [{"tokens": []}, {"tokens": None, "layers": None, "k": None}])
def test_null_and_an_empty_list_beside_a_text_count_as_left_out(empty: dict[str, Any]) -> None:
    body = parse(NeighboursRequest, orjson.dumps({"text": "a", "token": 0, **empty}), LIMITS)

    assert (body.sentences, body.request.layers, body.request.k) == (["a"], "top", 10)
