"""Errors on the wire: application/problem+json (RFC 9457)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import orjson
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo_serve.errors import (
    InternalError,
    MethodNotAllowed,
    ServiceError,
    TryLater,
    Unauthorized,
    UnknownRoute,
    problem,
    shown,
)
from elmo_serve.http.schemas import Problem

_log = logging.getLogger("elmo_serve.http.problem_details")

MEDIA_TYPE = "application/problem+json"


class Problems:
    """Plain ASGI: the one border where errors become answers, those of other middleware too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_started = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except ClientDisconnect:
            return  # nobody is left to be told
        except Exception as error:  # whatever it is, the client is answered and the log has it
            known = error if isinstance(error, ServiceError) else InternalError()
            if known is not error:
                _log.exception("unexpected error")
            if has_started:
                raise
            await response(known, scope["state"]["request_id"])(scope, receive, send)


def response(error: ServiceError, request_id: str) -> Response:
    """Return the answer that an error is."""
    return Response(
        orjson.dumps(problem(error, request_id)),
        status_code=error.status,
        headers=error.headers,
        media_type=MEDIA_TYPE,
    )


def translate(app: FastAPI) -> None:
    """Let the framework's own errors leave as ours."""

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        raise _known(request, error) from None

    app.add_exception_handler(HTTPException, http_error)


def documented(errors: Iterable[type[ServiceError]]) -> dict[int | str, dict[str, Any]]:
    """Return FastAPI's ``responses`` for some errors."""
    schema = {"$ref": f"#/components/schemas/{Problem.__name__}"}
    responses: dict[int | str, dict[str, Any]] = {}
    for error in sorted(errors, key=lambda error: error.status):
        response = responses.setdefault(
            error.status,
            {
                "description": "",
                "headers": {"X-Request-Id": REQUEST_ID},
                "content": {MEDIA_TYPE: {"schema": schema}},
            },
        )
        response["description"] += ("; " if response["description"] else "") + error.title
        if issubclass(error, TryLater):
            response["headers"]["Retry-After"] = _RETRY_AFTER
        if error is Unauthorized:
            response["headers"]["WWW-Authenticate"] = {"schema": {"type": "string"}}
    return responses


REQUEST_ID: dict[str, Any] = {
    "description": "The client's, when it is sane, or a new one.",
    "schema": {"type": "string"},
}
_RETRY_AFTER: dict[str, Any] = {
    "description": "Seconds after which the same request may be sent again.",
    "schema": {"type": "integer", "minimum": 1},
}


def _known(request: Request, error: HTTPException) -> ServiceError:
    path = shown(request.url.path)
    if error.status_code == 404:
        return UnknownRoute(f"No route {path}; /docs lists them.")
    if error.status_code == 405:
        allowed = ", ".join(_methods(request))
        return MethodNotAllowed(
            f"{path} does not take {shown(request.method)}; it takes {allowed}.",
            headers={"Allow": allowed},
        )
    _log.error("unexpected HTTP error", extra={"status": error.status_code, "why": error.detail})
    return InternalError()


def _methods(request: Request) -> list[str]:
    """Return the methods of the path that was asked for; the framework knows those of one route."""
    path = getattr(request.scope.get("route"), "path", None)
    documented_ones = request.app.openapi()["paths"].get(path, {"get": {}})
    methods = {method.upper() for method in documented_ones}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))
