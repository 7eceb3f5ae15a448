"""Logging of one process: text lines, or one JSON object a line."""

from __future__ import annotations

import json
import logging
import math
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""Id of the current request. Each record that is made while it is set gets it as a field."""


def configure(level: str, form: str) -> None:
    """Log to stderr, from `level` up ("debug", "info", "warning", "error"), as "text" or "json".

    A second call replaces the handler of the first. Raises ValueError for another level or form.
    """
    if form not in _FORMATTERS:
        raise ValueError(f"log format {form!r} is none of {', '.join(_FORMATTERS)}")
    handler = _Handler()
    handler.setFormatter(_FORMATTERS[form]())
    root = logging.getLogger()
    root.setLevel(level.upper())
    for old in [each for each in root.handlers if isinstance(each, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    # uvicorn has handlers of its own: with the root's, each line would be written twice. Its lines
    # below a warning tell of a start and a stop, of which there are lines of this program.
    for name in ("uvicorn", "uvicorn.error", "uvicorn.asgi", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(max(logging.WARNING, root.level))
    logging.getLogger("uvicorn.access").disabled = True  # `elmo_serve.access` has more fields
    logging.captureWarnings(True)


def show(text: str) -> None:
    """Write lines for a person, where the log is text on a terminal and not quieter than info."""
    root = logging.getLogger()
    for handler in root.handlers if root.isEnabledFor(logging.INFO) else ():
        if (
            isinstance(handler, _Handler)
            and isinstance(handler.formatter, TextFormatter)
            and handler.stream.isatty()
        ):
            handler.stream.write(f"{text}\n")
            handler.flush()


class JsonFormatter(logging.Formatter):
    """Map a record to one JSON object: time, level, logger, message, extra fields, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        members = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        members |= {key: value for key, value in _extra(record).items() if key not in members}
        if trace := _trace(self, record):
            members["exception"] = trace
        # ASCII only: a lone surrogate or a line separator of Unicode cannot break the line.
        return json.dumps(members, default=str)


class TextFormatter(logging.Formatter):
    """Map a record to one line, followed by the indented lines of its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        extra = "".join(f" {key}={_plain(str(value))}" for key, value in _extra(record).items())
        head = f"{_time(record)} {record.levelname:<7} {record.name}: "
        text = head + _plain(_message(record)) + extra
        for line in _trace(self, record).splitlines():
            text += "\n    " + _plain(line)
        return text


class _Handler(logging.StreamHandler[Any]):
    """The handler of `configure`; its class tells it from handlers of other libraries."""


_FORMATTERS: dict[str, type[logging.Formatter]] = {"text": TextFormatter, "json": JsonFormatter}

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "color_message"}


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields that are not of the standard library: the request id, then the extras."""
    fields: dict[str, Any] = {}
    if (current := request_id.get()) is not None:
        fields["request_id"] = current
    for key, value in record.__dict__.items():
        if key not in _STANDARD:
            # JSON has no NaN and no infinity.
            finite = not isinstance(value, float) or math.isfinite(value)
            fields[key] = value if finite else str(value)
    return fields


def _time(record: logging.LogRecord) -> str:
    """Return the time of a record by RFC 3339, in UTC, to the millisecond."""
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def _message(record: logging.LogRecord) -> str:
    return record.getMessage().rstrip("\n")  # the message of a warning ends with a line feed


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = [formatter.formatException(record.exc_info)] if record.exc_info else []
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return "\n".join(parts)


def _plain(text: str) -> str:
    # Text of a client may reach the log: it must neither start a new line nor control a terminal.
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
