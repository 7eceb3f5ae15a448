"""Each path has errors in the form of its API; as bytes an error is a response for any client."""

from typing import Any

import h11
import orjson
import pytest
from starlette.responses import Response

from elmo_serve.errors import (
    ClientOverShare,
    FieldError,
    InternalError,
    InvalidRequest,
    Overloaded,
    RequestTimeout,
    ServiceError,
    Unauthorized,
    Unavailable,
    UnknownModel,
)
from elmo_serve.http.error_responses import raw_response, response

BUSY = Overloaded("full", retry_after=2)


def answer_to(error: ServiceError, method: str, path: str) -> Response:
    return response(error, {"method": method, "path": path, "state": {"request_id": "id"}})


def body(error: ServiceError, path: str) -> Any:
    return orjson.loads(answer_to(error, "POST", path).body)


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (InvalidRequest("bad"), 400, "invalid_request_error", "invalid_request"),
        (Unauthorized("no key"), 401, "invalid_request_error", "invalid_api_key"),
        (UnknownModel("none"), 404, "invalid_request_error", "model_not_found"),
        (ClientOverShare("x", retry_after=1), 429, "rate_limit_error", "client_over_share"),
        (BUSY, 503, "server_error", "overloaded"),
        (InternalError(), 500, "server_error", "internal"),
    ],
)
def test_errors_of_openai(error: ServiceError, status: int, kind: str, code: str) -> None:
    answer = answer_to(error, "POST", "/v1/embeddings")

    assert answer.status_code == status
    found = body(error, "/v1/embeddings")["error"]
    assert found == {"message": error.detail, "type": kind, "param": None, "code": code}


def test_the_field_at_fault_is_the_first_part_of_its_pointer() -> None:
    error = InvalidRequest("bad", errors=[FieldError("/input/0/1", "must be a string")])

    assert body(error, "/v1/embeddings")["error"]["param"] == "input"


def test_headers_of_an_error_are_sent_in_its_form() -> None:
    assert answer_to(BUSY, "POST", "/v1/embeddings").headers["retry-after"] == "2"


def test_a_lone_surrogate_can_be_sent() -> None:
    assert "d800" in str(body(InvalidRequest("found \ud800"), "/v1/x"))


@pytest.mark.parametrize(
    ("error", "retry_after"),
    [(RequestTimeout("late \N{SNOWMAN}"), None), (Unavailable("busy", retry_after=7), b"7")],
)
def test_a_client_reads_status_headers_and_the_whole_body(
    error: ServiceError, retry_after: bytes | None
) -> None:
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    client.send(h11.EndOfMessage())
    client.receive_data(raw_response(error, "the-id"))

    head, data, end = client.next_event(), client.next_event(), client.next_event()

    assert isinstance(head, h11.Response) and isinstance(data, h11.Data)
    assert isinstance(end, h11.EndOfMessage)
    assert head.status_code == error.status
    fields = dict(head.headers)
    assert fields[b"content-type"] == b"application/problem+json"
    assert fields[b"x-request-id"] == b"the-id"
    assert fields.get(b"retry-after") == retry_after
    assert orjson.loads(bytes(data.data))["detail"] == error.detail
    assert client.their_state is h11.MUST_CLOSE
