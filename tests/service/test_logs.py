"""Logging: one line a record, from every library and with any text."""

import json
import logging
import os
import re
import subprocess
import sys
from datetime import datetime
from typing import Any

import pytest

from elmo_serve.logs import JsonFormatter, TextFormatter, request_id

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"

PROGRAM = """
import logging, sys, warnings
from elmo_serve.logs import configure
configure("info", sys.argv[1])
{body}
"""


def logged(body: str, form: str = "json") -> list[str]:
    """Run a program that logs, and return the lines of its stderr."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(body=body), form],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == ""
    return run.stderr.splitlines()


@pytest.mark.parametrize(("form", "shown"), [("text", ["Ready", "  page"]), ("json", [])], ids=str)
def test_lines_for_a_person_are_written_to_a_terminal_in_text_alone(
    form: str, shown: list[str]
) -> None:
    body = "from elmo_serve.logs import show; show('Ready\\n  page')"
    main, terminal = os.openpty()
    with os.fdopen(main, "rb", buffering=0) as screen, os.fdopen(terminal, "wb") as stderr:
        program = [sys.executable, "-c", PROGRAM.format(body=body), form]
        subprocess.run(program, stderr=stderr, check=True)
        stderr.write(b"end\n")
        stderr.flush()
        lines = iter(screen.readline, b"end\r\n")
        assert [line.decode().rstrip() for line in lines] == shown
    assert logged(body, form) == []


def record(message: str, *args: object, **extra: Any) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"msg": message, "args": args, "name": "elmo_serve.access", "levelname": "INFO"}
    )
    made.__dict__.update(extra)
    return made


def failed(message: str) -> logging.LogRecord:
    try:
        raise ValueError("first\nsecond \x1b[31m")
    except ValueError:
        return record(message, exc_info=sys.exc_info())


def test_a_json_record_has_its_members() -> None:
    made = record("%d done", 3, route="/embed", status=200, seconds=0.25)
    line = JsonFormatter().format(made)

    members = json.loads(line)
    time = members.pop("time")
    assert members == {
        "level": "info",
        "logger": "elmo_serve.access",
        "message": "3 done",
        "route": "/embed",
        "status": 200,
        "seconds": 0.25,
    }
    assert re.fullmatch(TIME, time)
    assert datetime.fromisoformat(time).timestamp() == pytest.approx(made.created, abs=0.001)


def test_a_text_record_is_one_line_with_its_extra_fields() -> None:
    line = TextFormatter().format(record("done", status=200))

    assert re.fullmatch(rf"{TIME} INFO    elmo_serve\.access: done status=200", line)


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_a_record_carries_the_id_of_its_request(formatter: logging.Formatter) -> None:
    token = request_id.set("id-7")
    try:
        during = formatter.format(record("x"))
        given = formatter.format(record("x", request_id="id-8"))
    finally:
        request_id.reset(token)

    assert "id-7" in during and "id-8" in given and "id-7" not in given
    assert "request_id" not in formatter.format(record("x"))


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\u2028b", "\x1b[2J", "\ud800", "\0", "\x85"])
@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_no_text_breaks_the_line_or_reaches_the_terminal(
    formatter: logging.Formatter, text: str
) -> None:
    line = formatter.format(record("%s", text, path=text))

    assert line.isprintable()
    assert len(line.splitlines()) == 1
    line.encode("utf-8")


def test_words_of_any_language_stay_readable_in_text() -> None:
    assert TextFormatter().format(record("Übergröße 東京")).endswith("Übergröße 東京")


def test_json_says_no_nan_and_takes_any_object() -> None:
    line = JsonFormatter().format(record("x", a=float("nan"), b=float("-inf"), c={1, 2}))

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    members = json.loads(line, parse_constant=refuse)
    assert (members["a"], members["b"], members["c"]) == ("nan", "-inf", "{1, 2}")


def test_an_exception_stays_with_its_record() -> None:
    members = json.loads(JsonFormatter().format(failed("broke")))
    lines = TextFormatter().format(failed("broke")).split("\n")

    assert members["exception"].startswith("Traceback")
    assert "ValueError: first\nsecond" in members["exception"]
    assert lines[0].endswith("elmo_serve.access: broke")
    assert len(lines) > 3
    assert all(line.startswith("    ") and line.isprintable() for line in lines[1:])


def test_a_program_logs_once_from_its_level_up_and_warnings_as_well() -> None:
    body = """
configure("info", "json")
logging.getLogger("a").debug("low")
logging.getLogger("a").info("high")
warnings.warn("old way")
"""
    high, warning = map(json.loads, logged(body))

    assert high["message"] == "high"
    assert warning["level"] == "warning"
    assert warning["message"].endswith("UserWarning: old way")


def test_uvicorn_logs_once_and_without_its_access_log() -> None:
    body = """
import uvicorn
async def app(scope, receive, send): ...
uvicorn.Config(app, log_config=None, access_log=False)
logging.getLogger("uvicorn.error").info("started")
logging.getLogger("uvicorn.error").warning("started", extra={"color_message": "blue"})
logging.getLogger("uvicorn.access").warning("GET /")
"""
    (line,) = logged(body)

    assert json.loads(line).keys() == {"time", "level", "logger", "message"}
    assert json.loads(line)["logger"] == "uvicorn.error"


def test_handlers_that_uvicorn_brought_are_removed() -> None:
    body = """
import uvicorn
async def app(scope, receive, send): ...
uvicorn.Config(app)
configure("info", "json")
logging.getLogger("uvicorn.error").warning("started")
logging.getLogger("uvicorn.access").info('%s - "%s %s HTTP/%s" %d', "a", "GET", "/", "1", 200)
"""
    assert [json.loads(line)["message"] for line in logged(body)] == ["started"]
