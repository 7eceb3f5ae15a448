"""The OpenAPI document: what is written down, what is served, and what the server does."""

import json
import sys
from collections.abc import Iterator
from typing import Any, get_args

import httpx
import pytest

from elmo_model.text.tokenizers import TOKENIZERS
from elmo_serve.http.error_responses import Problem
from elmo_serve.http.media_types import ENCODERS
from elmo_serve.http.middleware.api_keys import is_open
from elmo_serve.http.schemas.embed import (
    EmbedRequest,
    EmbedResponse,
    Tokenizer,
    TokenizeRequest,
    TokenizeResponse,
)
from elmo_serve.http.schemas.server import InfoResponse
from elmo_serve.tasks.schema import TaskBody, TaskResponse
from tests.support import fork_server
from tests.support.errors import ERRORS

ROUTES = {
    "/embed": {"post"},
    "/score": {"post"},
    "/substitutes": {"post"},
    "/tokenize": {"post"},
    "/tasks": {"get"},
    "/tasks/{name}": {"get", "put", "delete"},
    "/info": {"get"},
    "/similarity": {"post"},
    "/neighbours": {"post"},
    "/v1/embeddings": {"post"},
    "/v1/models": {"get"},
    "/v1/models/{name}": {"get"},
    "/info/centre": {"get"},
    "/": {"get"},
    "/health": {"get"},
    "/health/live": {"get"},
    "/health/ready": {"get"},
    "/metrics": {"get"},
}


@pytest.fixture(scope="module")
def served(client: httpx.Client) -> dict[str, Any]:
    document: dict[str, Any] = client.get("/openapi.json").json()
    return document


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from references(each)


def test_the_served_document_is_the_printed_one(served: dict[str, Any]) -> None:
    made = fork_server.run([sys.executable, "-m", "elmo_serve.http.app"])

    assert served == json.loads(made.stdout)


def test_every_route_of_the_contract_is_there_and_no_other(served: dict[str, Any]) -> None:
    assert {path: set(methods) for path, methods in served["paths"].items()} == ROUTES


def test_no_reference_leads_nowhere_and_no_schema_is_left_over(served: dict[str, Any]) -> None:
    found = {reference.removeprefix("#/components/schemas/") for reference in references(served)}

    assert found == set(served["components"]["schemas"])


def test_every_operation_is_described_tagged_and_plainly_named(served: dict[str, Any]) -> None:
    tags = {tag["name"] for tag in served["tags"] if tag["description"]}
    ids = [operation["operationId"] for _, _, operation in operations(served)]

    assert len(ids) == len(set(ids))
    assert {"embed", "listTasks", "getTask", "putTask", "deleteTask", "getInfo"} < set(ids)
    for path, method, operation in operations(served):
        assert operation["operationId"].isalpha(), (path, method)
        assert set(operation["tags"]) <= tags, (path, method)
        assert operation["summary"], (path, method)
        assert operation["description"], (path, method)


def schemas(part: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a document, whatever it describes."""
    if isinstance(part, dict):
        yield part
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from schemas(each)


def test_no_schema_uses_what_code_generators_cannot_read(served: dict[str, Any]) -> None:
    for schema in schemas(served):
        assert not {"oneOf", "not"} & set(schema), schema
        if {"anyOf", "$ref"} & set(schema):
            assert "default" not in schema, schema
    for path, method, operation in operations(served):
        for each in operation.get("parameters", ()):
            assert "anyOf" not in each["schema"] and not each["schema"].get("default"), (
                path,
                method,
            )


def test_no_field_of_a_request_has_a_default_that_makes_it_required(
    served: dict[str, Any],
) -> None:
    components = served["components"]["schemas"]
    names = ("EmbedRequest", "Mix", "TaskBody", "EmbeddingsRequest", "SimilarityRequest")
    for name in names:
        for field, schema in components[name]["properties"].items():
            assert "default" not in schema, (name, field)
            required = field in components[name].get("required", ())
            always = ("weights", "input", "pairs")
            assert required == (field in always), (name, field)


def test_examples_of_responses_fit_their_schemas() -> None:
    for model in (EmbedResponse, TaskResponse, Problem, TaskBody):
        (example,) = model.model_json_schema()["examples"]
        model.model_validate(example)


def test_the_example_of_tokens_keeps_the_law_of_offsets() -> None:
    """The token is `text[start:end]`."""
    (sent,) = TokenizeRequest.model_json_schema()["examples"]
    (answered,) = TokenizeResponse.model_json_schema()["examples"]
    (text,), (tokens,), (offsets,) = sent["text"], answered["tokens"], answered["offsets"]

    assert TokenizeResponse.model_validate(answered).tokenizer == sent["tokenizer"]
    assert [text[start:end] for start, end in offsets] == tokens


def test_every_tokenizer_of_the_model_can_be_named() -> None:
    assert set(get_args(Tokenizer)) == set(TOKENIZERS)


def test_every_error_is_problem_json_or_has_the_form_of_its_api(served: dict[str, Any]) -> None:
    statuses = {str(error.status) for error in ERRORS}
    for path, method, operation in operations(served):
        for status, response in operation["responses"].items():
            if status < "400":
                continue
            assert status in statuses, (path, method, status)
            is_foreign = path.startswith("/v1/")
            media_type = "application/json" if is_foreign else "application/problem+json"
            assert list(response["content"]) == [media_type]
            assert "X-Request-Id" in response["headers"]
            assert ("Retry-After" in response["headers"]) == (status in ("429", "503"))


def test_embed_can_answer_every_status_of_the_contract(served: dict[str, Any]) -> None:
    responses = served["paths"]["/embed"]["post"]["responses"]

    statuses = (200, 400, 401, 403, 404, 406, 409, 413, 415, 422, 429, 500, 503, 504)
    assert set(responses) == set(map(str, statuses))
    assert list(responses["200"]["content"]) == list(ENCODERS)
    own = {"Server-Timing", "Vary", "X-Request-Id", "X-Unknown-Share", "X-Warnings"}
    assert set(responses["200"]["headers"]) == own


def test_fields_are_those_of_the_contract(served: dict[str, Any]) -> None:
    schema = served["components"]["schemas"]["EmbedRequest"]

    assert list(schema["properties"]) == list(EmbedRequest.model_fields)
    assert schema["if"] == {"required": ["text"]}
    assert schema["else"]["required"] == ["sentences"]
    assert schema["additionalProperties"] is False
    for name, each in schema["properties"].items():
        assert each["description"], name


def test_info_is_described_as_it_is(client: httpx.Client, served: dict[str, Any]) -> None:
    schema = served["components"]["schemas"]["InfoResponse"]

    assert (
        set(client.get("/info").json()) == set(schema["required"]) == set(InfoResponse.model_fields)
    )


def test_examples_can_be_sent(client: httpx.Client, served: dict[str, Any]) -> None:
    examples = served["components"]["schemas"]["EmbedRequest"]["examples"]

    assert examples
    for example in examples:
        assert client.post("/embed", json=example).status_code == 200


def test_a_server_without_keys_declares_none(served: dict[str, Any]) -> None:
    assert "securitySchemes" not in served["components"]
    assert not any("security" in operation for _, _, operation in operations(served))


def test_a_server_with_keys_declares_where_it_needs_one(narrow_client: httpx.Client) -> None:
    document = narrow_client.get("/openapi.json").json()

    scheme = document["components"]["securitySchemes"]["ApiKey"]
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    for path, method, operation in operations(document):
        wanted: Any = None if is_open(method.upper(), path) else [{"ApiKey": []}]
        assert operation.get("security") == wanted, (path, method)
