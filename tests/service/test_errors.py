"""The errors: one tree, one problem document each."""

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
    Overloaded,
    SentenceFailed,
    ServiceError,
    TryLater,
    pointer,
)
from tests.support.http_messages import ERRORS

DOCS = Path(__file__).parents[2] / "docs" / "api.md"


def make(cls: type[ServiceError]) -> ServiceError:
    if cls is InternalError:
        return InternalError()
    if cls is SentenceFailed:
        return SentenceFailed("bad", 3).at("/text/3")
    if issubclass(cls, TryLater):
        return cls("wait", retry_after=2.5)
    return cls("bad", errors=[FieldError("/a", "b")], headers={"X-A": "b"})


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


@pytest.mark.parametrize("cls", ERRORS)
def test_an_error_crosses_processes_whole(cls: type[ServiceError]) -> None:
    error = make(cls)

    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is cls
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__


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
