"""Parts of the OpenAPI document that several routes share."""

from collections.abc import Iterable
from typing import Any, Final

from elmo_serve.http.media_types import json_text


def component(model: type) -> dict[str, str]:
    """Return the reference to the schema of a model."""
    return {"$ref": f"#/components/schemas/{model.__name__}"}


TIMEOUT: Final[dict[str, Any]] = {
    "name": "X-Request-Timeout",
    "in": "header",
    "required": False,
    "description": "Seconds after which the client no longer wants the response. The server's own "
    "limit (`request_timeout_seconds` in `/info`) is the cap.",
    "schema": {"type": "number", "exclusiveMinimum": 0, "examples": [30]},
}

WARNINGS: Final[dict[str, Any]] = {
    "description": "Number of tokens that are longer than the model reads or have white space "
    "inside; left out where there are none.",
    "schema": {"type": "integer", "minimum": 1},
}


def json_request(model: type, *parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the `openapi_extra` of a route that computes: its body, and its parameters."""
    content = {json_text.ENCODER.media_type: {"schema": component(model)}}
    return {
        "requestBody": {"required": True, "content": content},
        "parameters": [TIMEOUT, *parameters],
    }


def content(model: type, media_types: Iterable[str]) -> dict[str, Any]:
    """Return the `content` of a response: `model` in JSON, bytes in the other media types."""
    json, binary = component(model), {"type": "string", "format": "binary"}
    return {
        each: {"schema": json if each == json_text.ENCODER.media_type else binary}
        for each in media_types
    }
