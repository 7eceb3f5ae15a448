"""What a request's headers must say of a JSON body before it is read."""

from __future__ import annotations

from fastapi import Request

from service.encodings import json_text
from service.errors import UnsupportedMediaType, shown

_MEDIA_TYPE = json_text.ENCODING.media_type


def check(request: Request) -> None:
    """Raise UnsupportedMediaType for a body that says it is something else, or compressed."""
    sent = request.headers.get("content-type")
    if sent is not None and sent.partition(";")[0].strip().lower() != _MEDIA_TYPE:
        raise UnsupportedMediaType(f"Content-Type is {shown(sent)}; a request is {_MEDIA_TYPE}.")
    coding = request.headers.get("content-encoding", "identity")
    if coding.strip().lower() != "identity":
        raise UnsupportedMediaType(
            f"Content-Encoding is {shown(coding)}; a request body is not compressed.",
            headers={"Accept-Encoding": "identity"},
        )
