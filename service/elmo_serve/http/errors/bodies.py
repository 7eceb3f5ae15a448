"""Errors as responses: problem documents, and the bodies of the APIs that some routes follow."""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Final

import orjson
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Scope

from elmo_serve.errors import (
    InvalidRequest,
    ServiceError,
    TryLater,
    Unauthorized,
    Unavailable,
    UnknownModel,
)
from elmo_serve.http.errors import problem_details
from elmo_serve.http.schemas.clients import OpenAIErrorResponse, TeiErrorResponse
from elmo_serve.http.schemas.server import OpenInferenceErrorResponse

OPENAI: Final = "/v1/"
TEI: Final = "/tei/"
OPEN_INFERENCE: Final = "/v2/"
"""Paths. Below them, errors have the bodies of OpenAI, of text-embeddings-inference and of the Open
Inference Protocol."""

SCHEMAS: Final[dict[str, type[BaseModel]]] = {
    OPENAI: OpenAIErrorResponse,
    TEI: TeiErrorResponse,
    OPEN_INFERENCE: OpenInferenceErrorResponse,
}

_WITHOUT_VERSION: Final = ("/embeddings", "/models")
"""What OpenAI's clients ask for with a base address that lacks /v1: they show no other body."""

_CODES: Final[dict[type[ServiceError], str]] = {
    Unauthorized: "invalid_api_key",
    UnknownModel: "model_not_found",
}


def response(error: ServiceError, scope: Scope) -> Response:
    """Return the response for an error of a request."""
    method, path, state = scope["method"], scope["path"], scope["state"]
    if path.startswith(OPENAI) or path in _WITHOUT_VERSION:
        return _json(openai_body(error), openai_status(type(error)), error)
    if path.startswith(TEI) or path == "/tei" or (method, path) == ("POST", "/"):
        return _json(tei_body(error), error.status, error)
    if path.startswith(OPEN_INFERENCE) or path == "/v2":
        return _json({"error": problem_details.encodable(error.detail)}, error.status, error)
    document = problem_details.problem(error, state["request_id"], state.get("trace_id"))
    return _json(document, error.status, error, problem_details.MEDIA_TYPE)


def openai_status(error: type[ServiceError]) -> int:
    """Return the status of an error: OpenAI answers 400 to every fault of a body."""
    return 400 if issubclass(error, InvalidRequest) else error.status


def openai_body(error: ServiceError) -> dict[str, Any]:
    """Return OpenAI's body; `param` is the field at fault."""
    fields = [fault.pointer.split("/")[1] for fault in error.errors if fault.pointer]
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return {
        "error": {
            "message": problem_details.encodable(error.detail),
            "type": "rate_limit_error" if error.status == 429 else kind,
            "param": problem_details.encodable(fields[0]) if fields else None,
            "code": _CODES.get(type(error), error.slug.replace("-", "_")),
        }
    }


def tei_body(error: ServiceError) -> dict[str, Any]:
    """Return the body of text-embeddings-inference."""
    if isinstance(error, Unavailable):
        kind = "Unhealthy"
    elif isinstance(error, TryLater):
        kind = "Overloaded"
    else:
        kind = "Validation" if error.status < 500 else "Backend"
    return {"error": problem_details.encodable(error.detail), "error_type": kind}


def documented(errors: Iterable[type[ServiceError]], path: str) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route below one of `SCHEMAS` for some errors."""
    status_of = openai_status if path == OPENAI else attrgetter("status")
    return problem_details.documented(errors, SCHEMAS[path], "application/json", status_of)


def _json(
    body: dict[str, Any], status: int, error: ServiceError, media_type: str = "application/json"
) -> Response:
    return Response(orjson.dumps(body), status, error.headers, media_type)
