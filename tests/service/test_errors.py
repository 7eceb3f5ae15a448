"""The errors: one tree, one problem document each."""

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from elmo_client.errors import refusal
from elmo_serve.errors import (
    FieldError,
    InternalError,
    InvalidRequest,
    Overloaded,
    SentenceFailed,
    ServiceError,
    TryLater,
    UnknownTask,
    pointer,
)
from elmo_serve.http.error_responses import problem
from tests.support.errors import ERRORS

DOCS = Path(__file__).parents[2] / "docs" / "api.md"


def make(cls: type[ServiceError]) -> ServiceError:
    if cls is InternalError:
        return InternalError()
    if cls is SentenceFailed:
        return SentenceFailed("bad", 3).at("/text/3")
    if issubclass(cls, TryLater):
        return cls("wait", retry_after=2.5, headers={"X-A": "b"})
    return cls("bad", errors=[FieldError("/a", "b")], headers={"X-A": "b"})


def test_the_statuses_are_those_of_the_contract() -> None:
    assert {cls.status for cls in ERRORS} == {
        400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 422, 429, 500, 503, 504,
    }  # fmt: skip


def test_a_problem_has_the_members_of_rfc_9457() -> None:
    error = UnknownTask("No task 'x'; registered: 'ner'")

    assert problem(error, "id-1") == {
        "type": "urn:elmo-serve:error:unknown-task",
        "title": "Unknown task",
        "status": 404,
        "detail": "No task 'x'; registered: 'ner'",
        "instance": "id-1",
    }


def test_a_pointer_escapes_as_rfc_6901_says() -> None:
    assert pointer() == ""
    assert pointer("a/b", "m~n", 0) == "/a~1b/m~0n/0"
    assert pointer("~1") == "/~01"


@pytest.mark.parametrize(
    ("seconds", "header"), [(0, "1"), (0.2, "1"), (1, "1"), (1.01, "2"), (59.5, "60")]
)
def test_retry_after_is_whole_seconds_and_never_too_early(seconds: float, header: str) -> None:
    error = Overloaded("full", retry_after=seconds)

    assert error.headers["Retry-After"] == header
    assert error.retry_after == int(header)


def test_an_internal_error_says_nothing_of_its_cause() -> None:
    try:
        raise InternalError from ValueError("secret path")
    except InternalError as error:
        document = json.dumps(problem(error, "id"))

    assert "secret" not in document


@pytest.mark.parametrize("cls", ERRORS)
def test_an_error_crosses_processes_whole(cls: type[ServiceError]) -> None:
    error = make(cls)

    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is cls
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__


def test_what_json_can_carry_in_a_message_can_carry_out() -> None:
    error = InvalidRequest("\ud800", errors=[FieldError("/\udfff", "\ud800")])

    json.dumps(problem(error, "id"), ensure_ascii=False).encode("utf-8")


def test_the_errors_know_nothing_of_the_web_framework() -> None:
    code = "import sys, elmo_serve.errors; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert not loaded & {"fastapi", "starlette", "pydantic", "torch"}


def test_the_documentation_lists_every_type_with_its_class_in_the_client() -> None:
    rows = re.findall(r"^\| (\d{3}) \| `([a-z-]+)` \| `(\w+)` \|", DOCS.read_text(), re.MULTILINE)

    assert rows == [
        (str(cls.status), cls.slug, type(refusal(cls.status, b"{}", {})).__name__) for cls in ERRORS
    ]
