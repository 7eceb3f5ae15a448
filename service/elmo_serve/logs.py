"""Logging, configured once a process: lines for people, or one JSON object a line."""

from __future__ import annotations

import json
import logging
import math
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The request being answered; every record made while it is set carries it."""


def configure(level: str, form: str) -> None:
    """Log from `level` up ("debug", "info", "warning", "error") to stderr, as "text" or "json".

    A second call replaces what the first one set. Raises ValueError for another level or form.
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
    # uvicorn would write by handlers of its own, beside the root's: each line twice.
    for name in ("uvicorn", "uvicorn.error", "uvicorn.asgi", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.getLogger("uvicorn.access").disabled = True  # `elmo_serve.access` says more
    logging.captureWarnings(True)


class JsonFormatter(logging.Formatter):
    """Make one JSON object of a record: time, level, logger, message, then what came with it."""

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
        # ASCII only: neither a lone surrogate nor a line separator of Unicode can break a line.
        return json.dumps(members, default=str)


class TextFormatter(logging.Formatter):
    """Make one line of a record, and indented lines of a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        extra = "".join(f" {key}={_plain(str(value))}" for key, value in _extra(record).items())
        head = f"{_time(record)} {record.levelname:<7} {record.name}: "
        text = head + _plain(_message(record)) + extra
        for line in _trace(self, record).splitlines():
            text += "\n    " + _plain(line)
        return text


class _Handler(logging.StreamHandler[Any]):
    """Ours, to be told from the handlers of others."""


_FORMATTERS: dict[str, type[logging.Formatter]] = {"text": TextFormatter, "json": JsonFormatter}

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "color_message"}


def _extra(record: logging.LogRecord) -> dict[str, Any]:
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
    """Return RFC 3339, UTC, to the millisecond."""
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def _message(record: logging.LogRecord) -> str:
    return record.getMessage().rstrip("\n")  # a warning's ends with a line feed


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = [formatter.formatException(record.exc_info)] if record.exc_info else []
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return "\n".join(parts)


def _plain(text: str) -> str:
    # A client's text reaches the log: it must not start a line of its own or steer a terminal.
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
