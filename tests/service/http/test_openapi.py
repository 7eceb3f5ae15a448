"""The OpenAPI document: what is served, and what the server does."""

import json
import sys
from collections.abc import Iterator
from typing import Any, get_args

import httpx
import pytest

from elmo_model.text.tokenizers import TOKENIZERS
from elmo_serve.http.api_keys import is_open
from elmo_serve.http.error_responses import Problem
from elmo_serve.http.media_types import ENCODERS
from elmo_serve.http.schemas.embed import Tokenizer
from elmo_serve.http.schemas.openai import OpenAIErrorResponse
from elmo_serve.http.schemas.server import InfoResponse
from tests.support import fork_server


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


def test_no_reference_leads_nowhere_and_no_schema_is_left_over(served: dict[str, Any]) -> None:
    found = {reference.removeprefix("#/components/schemas/") for reference in references(served)}

    assert found == set(served["components"]["schemas"])


def test_every_operation_is_described_tagged_and_plainly_named(served: dict[str, Any]) -> None:
    tags = {tag["name"] for tag in served["tags"] if tag["description"]}
    ids = [operation["operationId"] for _, _, operation in operations(served)]

    assert len(ids) == len(set(ids))
    assert {"embed", "listTasks", "getTask", "getInfo"} < set(ids)
    for path, method, operation in operations(served):
        assert operation["operationId"].isalpha(), (path, method)
        assert set(operation["tags"]) <= tags, (path, method)
        assert operation["summary"], (path, method)
        assert operation["description"], (path, method)


def test_every_tokenizer_of_the_model_can_be_named() -> None:
    assert set(get_args(Tokenizer)) == set(TOKENIZERS)


def test_every_error_has_the_one_form_of_its_api(
    client: httpx.Client, served: dict[str, Any]
) -> None:
    """Each operation describes its errors by one response, whose schema fits a real error."""
    for path, method, operation in operations(served):
        described = {status for status in operation["responses"] if not status.startswith("2")}
        assert described == {"default"}, (path, method)
    for path, model in (("/embed", Problem), ("/v1/embeddings", OpenAIErrorResponse)):
        answer = client.post(path, json={})
        content = served["paths"][path]["post"]["responses"]["default"]["content"]
        schema = {"$ref": f"#/components/schemas/{model.__name__}"}
        assert content == {answer.headers["content-type"]: {"schema": schema}}
        model.model_validate(answer.json())


def test_vectors_are_described_in_every_media_type_that_they_have(served: dict[str, Any]) -> None:
    content = served["paths"]["/embed"]["post"]["responses"]["200"]["content"]

    assert set(content) == set(ENCODERS)
    assert content["application/json"]["schema"] == {"$ref": "#/components/schemas/EmbedResponse"}


def test_info_is_described_as_it_is(client: httpx.Client, served: dict[str, Any]) -> None:
    schema = served["components"]["schemas"]["InfoResponse"]

    assert (
        set(client.get("/info").json()) == set(schema["required"]) == set(InfoResponse.model_fields)
    )


def test_the_examples_can_be_sent(client: httpx.Client, served: dict[str, Any]) -> None:
    for path, name in (("/embed", "EmbedRequest"), ("/v1/embeddings", "EmbeddingsRequest")):
        (example,) = served["components"]["schemas"][name]["examples"]
        assert client.post(path, json={**example, "model": None}).status_code == 200


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
