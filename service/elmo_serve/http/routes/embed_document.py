"""What the OpenAPI document says of POST /embed beside its description."""

from __future__ import annotations

from typing import Any

from elmo_serve.errors import (
    ClientOverShare,
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    MalformedBody,
    NotAcceptable,
    Overloaded,
    SentenceFailed,
    TooLarge,
    Unauthorized,
    Unavailable,
    UnknownTask,
    UnsupportedMediaType,
)
from elmo_serve.http.media_types import ENCODINGS, json_text
from elmo_serve.http.problem_details import REQUEST_ID, documented
from elmo_serve.http.schemas import EmbedAnswer, EmbedRequest


def _component(model: type) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


REQUEST: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {json_text.ENCODING.media_type: {"schema": _component(EmbedRequest)}},
    },
    "parameters": [
        {
            "name": "X-Request-Timeout",
            "in": "header",
            "required": False,
            "description": "Seconds after which the client no longer wants the answer; the "
            "server's own limit is the cap. Less than 1, such as 0.25, is taken at its word too.",
            "schema": {"type": "number", "minimum": 1},
        },
    ],
}

_HEADERS: dict[str, Any] = {
    "Server-Timing": {
        "description": "Milliseconds in the queue, in the network and in the encoding.",
        "schema": {"type": "string"},
    },
    "Vary": {"schema": {"type": "string"}},
    "X-Request-Id": REQUEST_ID,
}

_BINARY = {"schema": {"type": "string", "format": "binary"}}

RESPONSES: dict[int | str, dict[str, Any]] = {
    **documented(
        (
            MalformedBody,
            Unauthorized,
            UnknownTask,
            NotAcceptable,
            TooLarge,
            UnsupportedMediaType,
            InvalidRequest,
            SentenceFailed,
            InternalError,
            ClientOverShare,
            Overloaded,
            Unavailable,
            DeadlineExceeded,
        )
    ),
    200: {
        "description": "The vectors, in the media type that Accept prefers.",
        "headers": _HEADERS,
        "content": {
            media_type: {"schema": _component(EmbedAnswer)}
            if media_type == json_text.ENCODING.media_type
            else _BINARY
            for media_type in ENCODINGS
        },
    },
}
