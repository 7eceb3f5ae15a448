"""A kind of route for what is called most."""

from collections.abc import Callable
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send


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
