"""The models of request bodies: layer numbers, sentences, defaults."""

from typing import Any

import pytest
from pydantic import ValidationError

from elmo_serve.http.schemas.embed import EmbedRequest


def test_fields_that_were_not_sent_have_their_defaults() -> None:
    request = EmbedRequest.model_validate_json(b'{"sentences": []}')

    assert (request.layers, request.pooling, request.dtype) == ("all", "none", "float32")
    assert request.model_fields_set == {"sentences"}


def test_a_whole_number_may_be_written_with_a_point() -> None:
    request = EmbedRequest.model_validate_json(b'{"sentences": [], "layers": [1.0, 2]}')

    assert request.layers == [1, 2]


@pytest.mark.parametrize(
    "members",
    [
        {"sentences": [["a", 1]]},
        {"sentences": [], "layers": [1.5]},
        {"sentences": [], "layers": [-1]},
        {"sentences": [], "task": None},
    ],
)
def test_a_wrong_value_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        EmbedRequest.model_validate(members)
