"""The schemas of the routes that follow other APIs agree with what `text_bodies` reads."""

from typing import Any

import orjson
import pytest
from pydantic import BaseModel, ValidationError

from elmo_serve.errors import InvalidRequest
from elmo_serve.http.request.parsing import RequestLimits
from elmo_serve.http.schemas.clients import (
    EmbeddingsRequest,
    SimilarityRequest,
    TeiEmbedAllRequest,
    TeiEmbedRequest,
)
from elmo_serve.http.text.bodies import Form, parse

LIMITS = RequestLimits(10, 10)
FORMS: list[tuple[type[BaseModel], Form]] = [
    (EmbeddingsRequest, "/v1/embeddings"),
    (TeiEmbedRequest, "/tei/embed"),
    (TeiEmbedAllRequest, "/tei/embed"),
    (SimilarityRequest, "/similarity"),
]


@pytest.mark.parametrize(("model", "form"), FORMS)
def test_examples_are_read(model: type[BaseModel], form: Form) -> None:
    (example,) = model.model_json_schema()["examples"]

    model.model_validate(example)
    assert parse(orjson.dumps(example), LIMITS, form).sentences


@pytest.mark.parametrize(
    ("model", "form", "body"),
    [
        (EmbeddingsRequest, "/v1/embeddings", {"input": 3}),
        (EmbeddingsRequest, "/v1/embeddings", {"input": [[1]]}),
        (EmbeddingsRequest, "/v1/embeddings", {"input": "a", "encoding_format": "int8"}),
        (EmbeddingsRequest, "/v1/embeddings", {"input": "a", "dimensions": "512"}),
        (TeiEmbedRequest, "/tei/embed", {"inputs": {}}),
        (TeiEmbedRequest, "/tei/embed", {"inputs": "a", "dimensions": True}),
        (TeiEmbedRequest, "/tei/embed", {"inputs": "a", "dimensions": 8.5}),
        (TeiEmbedRequest, "/tei/embed", {"inputs": "a", "normalize": "maybe"}),
        (SimilarityRequest, "/similarity", {"pairs": [[{"text": "a"}]]}),
        (SimilarityRequest, "/similarity", {"pairs": [], "centred": "x"}),
        (SimilarityRequest, "/similarity", {"pairs": [], "other": 1}),
        (SimilarityRequest, "/similarity", {"pairs": [[{"text": "a", "token": -1}] * 2]}),
    ],
)
def test_both_refuse_the_same(model: type[BaseModel], form: Form, body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model.model_validate(body)
    with pytest.raises(InvalidRequest):
        parse(orjson.dumps(body), LIMITS, form)
