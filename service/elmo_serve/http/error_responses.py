"""Errors as responses: problem documents (RFC 9457), and OpenAI's bodies below /v1/.

This is the one place where exceptions of other code become errors of the API (`translated`).
"""

import errno
import logging
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from elmo_model.errors import shown
from elmo_serve.errors import (
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    ServiceError,
    Unauthorized,
    Unavailable,
    UnknownModel,
    UnknownRoute,
)
from elmo_serve.selection import SelectionError
from elmo_serve.validation import optional, refusal

MEDIA_TYPE: Final = "application/problem+json"
_JSON: Final = "application/json"

OPENAI: Final = "/v1/"
"""Path below which errors have OpenAI's bodies."""

_OPENAI_CODES: Final[dict[type[ServiceError], str]] = {
    Unauthorized: "invalid_api_key",
    UnknownModel: "model_not_found",
}

_SHORTAGES: Final = {errno.ENOMEM, errno.ENOBUFS, errno.EMFILE, errno.ENFILE, errno.ENOSPC}
"""Errors that say that memory or file descriptors are used up."""

_log = logging.getLogger(__name__)


class FieldProblem(BaseModel):
    """One fault of a request body or of a query."""

    pointer: str = Field(
        description="JSON pointer (RFC 6901) into the body; `/` and the name of a query parameter."
    )
    detail: str


class Problem(BaseModel):
    """RFC 9457 problem details."""

    type: str = Field(description="The error's name: a URI that is the same in every version.")
    title: str
    status: int
    detail: str
    instance: str = Field(description="The request id.")
    errors: list[FieldProblem] = optional((), "The faults of the request body, where it has any.")


def translated(error: Exception, request: Request) -> ServiceError:
    """Return the error of the API for an exception; log one that is not of the API."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, SelectionError):
        return InvalidRequest.of(*error.faults)
    if isinstance(error, RequestValidationError):  # of a query: `loc` begins with that word
        faults: list[Any] = [{**fault, "loc": fault["loc"][1:]} for fault in error.errors()]
        return refusal(faults)
    if isinstance(error, HTTPException):
        return _of_framework(request, error)
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _SHORTAGES):
        _log.error("a request failed, out of memory or file descriptors: %s", error)
        return Unavailable("The server lacks memory or file descriptors.", retry_after=1)
    _log.error("unexpected error", exc_info=error)
    return InternalError()


def response(error: ServiceError, scope: Scope) -> Response:
    """Return the response for an error of a request."""
    path, state = scope["path"], scope["state"]
    if path.startswith(OPENAI):
        body, status, media_type = openai_body(error), openai_status(type(error)), _JSON
    else:
        body = problem(error, state["request_id"])
        status, media_type = error.status, MEDIA_TYPE
    return Response(orjson.dumps(body), status, error.headers, media_type)


def openai_status(error: type[ServiceError]) -> int:
    """Return the status of an error: OpenAI answers 400 to every fault of a body."""
    return 400 if issubclass(error, InvalidRequest) else error.status


def openai_body(error: ServiceError) -> dict[str, Any]:
    """Return OpenAI's body; `param` is the field at fault."""
    fields = [fault.pointer.split("/")[1] for fault in error.errors if fault.pointer]
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return {
        "error": {
            "message": encodable(error.detail),
            "type": "rate_limit_error" if error.status == 429 else kind,
            "param": encodable(fields[0]) if fields else None,
            "code": _OPENAI_CODES.get(type(error), error.slug.replace("-", "_")),
        }
    }


def problem(error: ServiceError, instance: str) -> dict[str, Any]:
    """Return the members of the problem document. `instance` is the request id."""
    members: dict[str, Any] = {
        "type": error.uri(),
        "title": error.title,
        "status": error.status,
        "detail": encodable(error.detail),
        "instance": encodable(instance),
    }
    if error.errors:
        members["errors"] = [
            {"pointer": encodable(fault.pointer), "detail": encodable(fault.detail)}
            for fault in error.errors
        ]
    return members


def encodable(text: str) -> str:
    """Return a text that UTF-8 can encode: a JSON string may hold a lone surrogate (`\\ud800`)."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def raw_response(error: ServiceError, request_id: str) -> bytes:
    """Return the last response of a connection in HTTP/1.1, for what no application answers."""
    body = orjson.dumps(problem(error, request_id))
    fields = {
        "date": formatdate(usegmt=True),
        **{name.lower(): value for name, value in error.headers.items()},
        "content-length": len(body),
        "content-type": MEDIA_TYPE,
        "x-request-id": request_id,
        "connection": "close",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    phrase = HTTPStatus(error.status).phrase
    return f"HTTP/1.1 {error.status} {phrase}\r\n{lines}\r\n".encode() + body


def _of_framework(request: Request, error: HTTPException) -> ServiceError:
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
    """Return all methods of the requested path; the framework knows those of one route alone."""
    path = getattr(request.scope.get("route"), "path", None)
    documented_ones = request.app.openapi()["paths"].get(path, {"get": {}})
    methods = {method.upper() for method in documented_ones}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))
