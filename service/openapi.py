"""The OpenAPI document: the framework's, with what it cannot know."""

from __future__ import annotations

import json
import sys
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from service.schemas import EmbedAnswer, EmbedRequest, Problem


def describe(app: FastAPI) -> None:
    """Let ``/openapi.json`` show the contract as it is."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # the framework's own way


def _document(app: FastAPI) -> dict[str, Any]:
    schema = get_openapi(
        title=app.title, version=app.version, summary=app.summary, routes=app.routes
    )
    components = schema["components"]["schemas"]
    _, definitions = models_json_schema(
        [(EmbedRequest, "validation"), (EmbedAnswer, "serialization"), (Problem, "serialization")],
        ref_template="#/components/schemas/{model}",
    )
    components.update(definitions["$defs"])
    for unused in ("HTTPValidationError", "ValidationError"):
        components.pop(unused, None)
    return schema


if __name__ == "__main__":
    from service.app import create_app
    from service.settings import Settings

    json.dump(create_app(Settings()).openapi(), sys.stdout, indent=2, ensure_ascii=False)
    print()
