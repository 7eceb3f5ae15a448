"""The OpenAPI document: the framework's, with what it cannot know."""

from __future__ import annotations

import copy
import json
import sys
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from elmo_serve.http.schemas import EmbedAnswer, EmbedRequest, Problem, TaskBody


def describe(app: FastAPI, *, needs_key: bool) -> None:
    """Let ``/openapi.json`` show the contract as it is, once it is known for the model's layers.

    The routes are in place. What takes long is done here, not when the document is asked for.
    """
    documents: dict[int | None, dict[str, Any]] = {None: _document(app, needs_key)}

    def document() -> dict[str, Any]:
        layers = _layers(app)
        if layers is not None and layers not in documents:
            documents[layers] = _fitted(documents[None], layers)
        return documents[layers]

    app.openapi = document  # type: ignore[method-assign]  # the framework's own way


def _layers(app: FastAPI) -> int | None:
    server = getattr(app.state, "server", None)
    return server.engine.info.layers if server and server.engine.info else None


def _document(app: FastAPI, needs_key: bool) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, summary=app.summary, routes=app.routes
    )
    components = document["components"]["schemas"]
    _, definitions = models_json_schema(
        [
            (EmbedRequest, "validation"),
            (TaskBody, "validation"),
            (EmbedAnswer, "serialization"),
            (Problem, "serialization"),
        ],
        ref_template="#/components/schemas/{model}",
    )
    components.update(definitions["$defs"])
    _drop_what_never_leaves(document)
    _ask_for_a_key(document, needs_key)
    return document


def _drop_what_never_leaves(document: dict[str, Any]) -> None:
    """Take out the framework's own 422, which it adds wherever a path has a parameter."""
    for unused in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(unused, None)
    for path in document["paths"].values():
        for operation in path.values():
            if "HTTPValidationError" in str(operation["responses"].get("422")):
                del operation["responses"]["422"]


def _ask_for_a_key(document: dict[str, Any], needs_key: bool) -> None:
    """Let the operations that can answer 401 say what they take; a server may have no keys."""
    document["components"]["securitySchemes"] = {
        "ApiKey": {
            "type": "http",
            "scheme": "bearer",
            "description": "One of the server's API keys, where it has any.",
        }
    }
    for path in document["paths"].values():
        for operation in path.values():
            if "401" in operation["responses"]:
                operation["security"] = [{"ApiKey": []}] if needs_key else [{}, {"ApiKey": []}]


def _fitted(document: dict[str, Any], layers: int) -> dict[str, Any]:
    """Return a document that says how many layers there are, wherever that bounds what is allowed.

    An array of layers is no longer than their number, a mixture has one weight for each.
    """
    document = copy.deepcopy(document)
    components = document["components"]["schemas"]
    _, numbers = components["EmbedRequest"]["properties"]["layers"]["anyOf"]
    numbers["maxItems"] = layers
    numbers["items"]["maximum"] = layers - 1
    for holder in ("Mix", "TaskBody"):
        weights = components[holder]["properties"]["weights"]
        weights["minItems"] = weights["maxItems"] = layers
    return document


if __name__ == "__main__":
    from elmo_serve.http.app import create_app
    from elmo_serve.settings import Settings

    json.dump(create_app(Settings()).openapi(), sys.stdout, indent=2, ensure_ascii=False)
    print()
