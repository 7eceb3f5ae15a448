"""What several routes share: their class, their parameters, parts of the OpenAPI document."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Request
from fastapi.routing import APIRoute
from pydantic.json_schema import SkipJsonSchema
from starlette.types import ASGIApp, Receive, Scope, Send

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
