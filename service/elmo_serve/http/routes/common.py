"""What several routes share: their class, their parameters, parts of the OpenAPI document."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from fastapi.routing import APIRoute
from pydantic.json_schema import SkipJsonSchema
from starlette.types import ASGIApp, Receive, Scope, Send

from elmo_model.errors import counted, shown
from elmo_serve.errors import FieldError, InvalidRequest
from elmo_serve.http.media_types import json_text
from elmo_serve.http.state import Server


class PlainRoute(APIRoute):
    """A route whose endpoint takes the request and returns a response, without dependencies.

    Its ASGI application is the endpoint: the stacks that FastAPI opens for dependencies, and its
    second handling of exceptions, take longer than the queue takes for a small request.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            response: ASGIApp = await endpoint(Request(scope, receive))
            await response(scope, receive, send)

        self.app = app


async def _server(request: Request) -> Server:  # FastAPI runs a plain function in a thread
    server: Server = request.app.state.server
    return server


TheServer = Annotated[Server, Depends(_server)]
"""The server as a parameter of a route."""

Model = Annotated[
    str | SkipJsonSchema[None],  # generated clients read `anyOf` with null badly
    Query(description="A model of the server. Default: the first one."),
]
"""The name of a model as a parameter of a route; None for the first one."""


def json_request(model: type) -> dict[str, Any]:
    """Return the `openapi_extra` of a route whose body is a `model` in JSON."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    content = {json_text.ENCODER.media_type: {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


def json_or_bytes(media_types: Iterable[str]) -> dict[str, Any]:
    """Return the `content` of a response in JSON, which FastAPI describes, and as bytes."""
    json, schema = json_text.ENCODER.media_type, {"type": "string", "format": "binary"}
    return {json: {}} | {each: {"schema": schema} for each in media_types if each != json}


def check_token(token: int | None, length: int, at: str) -> None:
    """Raise InvalidRequest for the number of a token that a sentence of `length` does not have."""
    if token is not None and token >= length:
        detail = (
            f"there is no token {shown(token)}; found {counted(length, 'token')}, numbered from 0"
        )
        raise InvalidRequest.of(FieldError(at, detail))
