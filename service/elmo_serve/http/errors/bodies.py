"""Errors as responses: problem documents, and OpenAI's bodies below /v1/."""

from collections.abc import Iterable
from typing import Any, Final

import orjson
from starlette.responses import Response
from starlette.types import Scope

from elmo_serve.errors import InvalidRequest, ServiceError, Unauthorized, UnknownModel
from elmo_serve.http.errors import problem_details
from elmo_serve.http.schemas.clients import OpenAIErrorResponse

OPENAI: Final = "/v1/"
"""Path below which errors have OpenAI's bodies."""

_WITHOUT_VERSION: Final = ("/embeddings", "/models")
"""What OpenAI's clients ask for with a base address that lacks /v1: they show no other body."""

_CODES: Final[dict[type[ServiceError], str]] = {
    Unauthorized: "invalid_api_key",
    UnknownModel: "model_not_found",
}


def response(error: ServiceError, scope: Scope) -> Response:
    """Return the response for an error of a request."""
    path, state = scope["path"], scope["state"]
    if path.startswith(OPENAI) or path in _WITHOUT_VERSION:
        return _json(openai_body(error), openai_status(type(error)), error)
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


def documented(errors: Iterable[type[ServiceError]]) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route below /v1/ for some errors."""
    return problem_details.documented(
        errors, OpenAIErrorResponse, "application/json", openai_status
    )


def _json(
    body: dict[str, Any], status: int, error: ServiceError, media_type: str = "application/json"
) -> Response:
    return Response(orjson.dumps(body), status, error.headers, media_type)
