"""The OpenAPI description of POST /embed: request body, header, responses, media types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from elmo_serve.errors import Conflict, NotAcceptable, UnknownTask
from elmo_serve.http.errors.problem_details import EMBED_ERRORS, REQUEST_ID, documented
from elmo_serve.http.media_types import ENCODERS, json_text
from elmo_serve.http.schemas.embed import EmbedRequest, EmbedResponse


def component(model: type) -> dict[str, str]:
    """Return the reference to the schema of a model."""
    return {"$ref": f"#/components/schemas/{model.__name__}"}


TIMEOUT: dict[str, Any] = {
    "name": "X-Request-Timeout",
    "in": "header",
    "required": False,
    "description": "Seconds after which the client no longer wants the response. The server's own "
    "limit (`request_timeout_seconds` in `/info`) is the cap.",
    "schema": {"type": "number", "exclusiveMinimum": 0, "examples": [30]},
}

WARNINGS: dict[str, Any] = {
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


REQUEST: dict[str, Any] = json_request(EmbedRequest)

_HEADERS: dict[str, Any] = {
    "Server-Timing": {
        "description": "Milliseconds in the queue, in the network and in the encoding.",
        "schema": {"type": "string"},
    },
    "X-Unknown-Share": {
        "description": "Share of the tokens, from 0 to 1, that have no word vector. Only with "
        "`word_vectors`.",
        "schema": {"type": "number"},
    },
    "Vary": {"schema": {"type": "string"}},
    "X-Request-Id": REQUEST_ID,
    "X-Warnings": WARNINGS,
}


def content(model: type, media_types: Iterable[str]) -> dict[str, Any]:
    """Return the `content` of a response: `model` in JSON, bytes in the other media types."""
    json, binary = component(model), {"type": "string", "format": "binary"}
    return {
        each: {"schema": json if each == json_text.ENCODER.media_type else binary}
        for each in media_types
    }


RESPONSES: dict[int | str, dict[str, Any]] = {
    **documented((*EMBED_ERRORS, UnknownTask, NotAcceptable, Conflict)),
    200: {
        "description": "The vectors, in the media type that Accept prefers.",
        "headers": _HEADERS,
        "content": content(EmbedResponse, ENCODERS),
    },
}
