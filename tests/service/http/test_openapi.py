"""The OpenAPI document: what is written down, what is served, and what the server does."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

from elmo_serve.errors import ERRORS
from elmo_serve.http.media_types import ENCODINGS
from elmo_serve.http.schemas import EmbedRequest, InfoAnswer
from tests.support.checkpoints import write_pair
from tests.support.servers import running

DOCUMENT = Path(__file__).parents[3] / "docs" / "openapi.json"
ROUTES = {
    "/embed": {"post"},
    "/tasks": {"get"},
    "/tasks/{name}": {"get", "put", "delete"},
    "/info": {"get"},
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


def test_the_written_document_is_the_one_of_the_code() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "elmo_serve.http.openapi"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert made.stdout == DOCUMENT.read_text(encoding="utf-8"), (
        "python -m elmo_serve.http.openapi > docs/openapi.json"
    )


def test_the_served_document_is_the_written_one_but_for_the_layers(served: dict[str, Any]) -> None:
    written = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    for document in (written, served):
        components = document["components"]["schemas"]
        del components["EmbedRequest"]["properties"]["layers"]["anyOf"][1]
        for name in ("Mix", "TaskBody"):
            for key in ("minItems", "maxItems"):
                del components[name]["properties"]["weights"][key]

    assert served == written


def test_the_document_says_how_many_layers_the_model_has(tmp_path: Path) -> None:
    model = write_pair(tmp_path / "deep", layers=4)

    with running(tmp_path, model=model, worker="thread") as server:
        components = httpx.get(server.url + "/openapi.json").json()["components"]["schemas"]

    _, numbers = components["EmbedRequest"]["properties"]["layers"]["anyOf"]
    assert (numbers["maxItems"], numbers["items"]["maximum"]) == (5, 4)
    for name in ("Mix", "TaskBody"):
        weights = components[name]["properties"]["weights"]
        assert (weights["minItems"], weights["maxItems"]) == (5, 5)


def test_every_route_of_the_contract_is_there_and_no_other(served: dict[str, Any]) -> None:
    assert {path: set(methods) for path, methods in served["paths"].items()} == ROUTES


def test_no_reference_leads_nowhere_and_no_schema_is_left_over(served: dict[str, Any]) -> None:
    found = {reference.removeprefix("#/components/schemas/") for reference in references(served)}

    assert found == set(served["components"]["schemas"])


def test_every_operation_is_described_and_has_its_own_id(served: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(served)]

    assert len(ids) == len(set(ids))
    for path, method, operation in operations(served):
        assert operation["summary"], (path, method)
        assert operation["description"], (path, method)


def test_every_error_is_problem_json(served: dict[str, Any]) -> None:
    statuses = {str(error.status) for error in ERRORS}
    for path, method, operation in operations(served):
        for status, response in operation["responses"].items():
            if status < "400":
                continue
            assert status in statuses, (path, method, status)
            assert list(response["content"]) == ["application/problem+json"]
            assert "X-Request-Id" in response["headers"]
            assert ("Retry-After" in response["headers"]) == (status in ("429", "503"))


def test_embed_can_answer_every_status_of_the_contract(served: dict[str, Any]) -> None:
    responses = served["paths"]["/embed"]["post"]["responses"]

    statuses = (200, 400, 401, 404, 406, 413, 415, 422, 429, 500, 503, 504)
    assert set(responses) == set(map(str, statuses))
    assert list(responses["200"]["content"]) == list(ENCODINGS)
    assert {"Server-Timing", "Vary", "X-Request-Id"} == set(responses["200"]["headers"])


def test_fields_are_those_of_the_contract(served: dict[str, Any]) -> None:
    schema = served["components"]["schemas"]["EmbedRequest"]

    assert list(schema["properties"]) == list(EmbedRequest.model_fields)
    assert schema["required"] == ["sentences"]
    assert schema["additionalProperties"] is False
    assert {
        name: each["default"] for name, each in schema["properties"].items() if "default" in each
    } == {
        "layers": "all",
        "pooling": "none",
        "dtype": "float32",
    }
    for name, each in schema["properties"].items():
        assert each["description"], name


def test_info_is_described_as_it_is(client: httpx.Client, served: dict[str, Any]) -> None:
    schema = served["components"]["schemas"]["InfoAnswer"]

    assert (
        set(client.get("/info").json()) == set(schema["required"]) == set(InfoAnswer.model_fields)
    )


def test_examples_can_be_sent(client: httpx.Client, served: dict[str, Any]) -> None:
    examples = served["components"]["schemas"]["EmbedRequest"]["examples"]

    assert examples
    for example in examples:
        assert client.post("/embed", json=example).status_code == 200


def test_docs_show_the_document_and_need_no_other_host(client: httpx.Client) -> None:
    page = client.get("/docs")

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "'./openapi.json'" in page.text
    assert "://" not in page.text
    linked = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(linked) == 3
    kinds = set()
    for link in linked:
        answer = client.get(urljoin("/docs", link))
        assert answer.status_code == 200
        assert client.head(urljoin("/docs", link)).headers["content-length"] == str(
            len(answer.content)
        )
        kinds.add(answer.headers["content-type"].partition(";")[0])
    assert kinds == {"text/javascript", "text/css", "image/png"}


@pytest.mark.parametrize("name", ["redoc.standalone.js", "..", "%2e%2e%2fcore.py", "x"])
def test_docs_hand_out_nothing_else(client: httpx.Client, name: str) -> None:
    answer = client.get(f"/docs/{name}")

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_keys_are_declared_where_they_are_asked_for(served: dict[str, Any]) -> None:
    scheme = served["components"]["securitySchemes"]["ApiKey"]

    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    for path, method, operation in operations(served):
        wanted = [{}, {"ApiKey": []}] if "401" in operation["responses"] else None
        assert operation.get("security") == wanted, (path, method)
        assert (wanted is None) == (path.startswith("/health") or path == "/metrics")


def test_a_server_with_keys_says_that_it_needs_one(narrow_client: httpx.Client) -> None:
    document = narrow_client.get("/openapi.json").json()

    assert document["paths"]["/embed"]["post"]["security"] == [{"ApiKey": []}]
    assert document["paths"]["/tasks/{name}"]["put"]["security"] == [{"ApiKey": []}]
