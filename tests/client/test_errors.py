"""The tree of errors, and the error for each response."""

from __future__ import annotations

import json
import pickle

import pytest

from elmo_client import errors
from elmo_client.errors import FieldError, Problem, Refused, refusal

DOCUMENT = {
    "type": "urn:elmo-serve:error:invalid-request",
    "title": "Invalid request",
    "status": 422,
    "detail": "/layers: is wrong",
    "instance": "abc",
    "errors": [{"pointer": "/layers", "detail": "is wrong"}],
}


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "InvalidRequest"),
        (401, "Unauthorized"),
        (403, "RequestRefused"),
        (404, "NotFound"),
        (406, "InvalidRequest"),
        (409, "RequestRefused"),
        (413, "TooLarge"),
        (415, "InvalidRequest"),
        (422, "InvalidRequest"),
        (429, "TryLater"),
        (500, "ServerFailed"),
        (502, "ServerFailed"),
        (503, "TryLater"),
        (408, "ServerFailed"),
        (504, "ServerFailed"),
    ],
)
def test_every_status_has_its_error(status: int, name: str) -> None:
    error = refusal(status, json.dumps(DOCUMENT).encode(), {}, first=7)

    assert type(error) is getattr(errors, name)
    assert isinstance(error, Refused)
    assert error.problem == Problem(
        DOCUMENT["type"],  # type: ignore[arg-type]
        "Invalid request",
        status,
        "/layers: is wrong",
        "abc",
        (FieldError("/layers", "is wrong"),),
    )
    assert str(error) == (
        f"{status} Invalid request: /layers: is wrong (in the request that begins with sentence 7)"
    )


def test_a_redirect_is_no_refusal() -> None:
    assert type(refusal(302, b"", {})) is errors.BadAnswer


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"type": 1}', b"\xff\xfe"])
def test_a_body_that_is_no_problem_document_is_quoted(body: bytes) -> None:
    error = refusal(503, body, {"x-request-id": "abc"})

    assert isinstance(error, errors.TryLater)
    assert (error.problem.type, error.problem.instance) == ("about:blank", "abc")


def test_an_error_crosses_processes() -> None:
    error = pickle.loads(pickle.dumps(refusal(503, b"", {}, first=3)))

    assert isinstance(error, errors.TryLater) and error.first == 3


def test_the_drawing_shows_every_error_under_its_base() -> None:
    drawn: dict[str, str] = {}
    above = ["ElmoError"]
    for line in (errors.__doc__ or "").splitlines():
        if "── " in line:
            depth = line.index("── ") // 4 + 1
            name = line.split("── ")[1].split()[0]
            above[depth:] = [name]
            drawn[name] = above[depth - 1]

    found = {
        name: base.__name__
        for name, each in vars(errors).items()
        if isinstance(each, type)
        and issubclass(each, errors.ElmoError)
        and (base := each.__bases__[0]) is not Exception
    }
    assert drawn == found
