"""The OpenAPI document: the framework's, with what it cannot know."""

from __future__ import annotations

import json
import sys
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from service.schemas import EmbedAnswer, EmbedRequest, Problem, TaskBody


def describe(app: FastAPI) -> None:
    """Let ``/openapi.json`` show the contract as it is, once it is known for the model's layers."""
    documents: dict[int | None, dict[str, Any]] = {}

    def document() -> dict[str, Any]:
        layers = _layers(app)
        if layers not in documents:
            documents[layers] = _document(app, layers)
        return documents[layers]

    app.openapi = document  # type: ignore[method-assign]  # the framework's own way


def _layers(app: FastAPI) -> int | None:
    server = getattr(app.state, "server", None)
    return server.engine.info.layers if server and server.engine.info else None


def _document(app: FastAPI, layers: int | None) -> dict[str, Any]:
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
    for unused in ("HTTPValidationError", "ValidationError"):
        components.pop(unused, None)
    if layers is not None:
        _fit(components, layers)
    return document


def _fit(components: dict[str, Any], layers: int) -> None:
    """Say how many layers the model has, wherever that bounds what is allowed."""
    _, numbers = components["EmbedRequest"]["properties"]["layers"]["anyOf"]
    numbers["maxItems"] = layers
    numbers["items"]["maximum"] = layers - 1
    for holder in ("Mix", "TaskBody"):
        weights = components[holder]["properties"]["weights"]
        weights["minItems"] = weights["maxItems"] = layers


if __name__ == "__main__":
    from service.app import create_app
    from service.settings import Settings

    json.dump(create_app(Settings()).openapi(), sys.stdout, indent=2, ensure_ascii=False)
    print()
