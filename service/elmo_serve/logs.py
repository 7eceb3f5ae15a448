"""Logging of one process: text lines, or one JSON object a line."""

from __future__ import annotations

import json
import logging
import math
import os
import select
import sys
import threading
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from queue import Full, Queue
from typing import Any, Final

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""Id of the current request. Each record that is made while it is set gets it as a field."""

_QUEUE_LINES: Final = 3_000
"""Lines that wait to be written, some 1 MiB of the access log. A larger value loses fewer lines
while the reader of a pipe stands still, and holds memory."""

_FLUSH_SECONDS: Final = 1.0
"""Seconds that the end of the process waits for the last lines to be read."""


def configure(level: str, form: str) -> None:
    """Log to stderr, from `level` up ("debug", "info", "warning", "error"), as "text" or "json".

    A second call replaces the handler of the first. Child processes log likewise: see `_child_main`
    of `processes.child`. Raises ValueError for another level, KeyError for another form.
    """
    root = logging.getLogger()
    root.setLevel(level.upper())
    if (old := _handler()) is not None:
        root.removeHandler(old)
        old.close()
    handler = _Handler(_stderr(), form)
    handler.setFormatter(_FORMATTERS[form]())
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


def _stderr() -> int:
    """Return the descriptor of stderr, or of nowhere: another file may have its number then."""
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError):  # closed before the start; or text in memory
        return os.open(os.devnull, os.O_WRONLY)


def show(text: str) -> None:
    """Write lines for a person, where the log is text on a terminal and not quieter than info."""
    handler = _handler()
    if handler is None or not logging.getLogger().isEnabledFor(logging.INFO):
        return
    if handler.form == "text" and os.isatty(handler.descriptor):
        handler.write(text)


def configured() -> tuple[str, str] | None:
    """Return the level and the form of `configure`; None where it was not called."""
    handler = _handler()
    level = logging.getLevelName(logging.getLogger().level)
    return None if handler is None else (level, handler.form)


def lines_dropped() -> int:
    """Return the number of lines that this process has not written since `configure`."""
    handler = _handler()
    return 0 if handler is None else handler.dropped + handler.failed


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


class _Handler(logging.Handler):
    """Gives lines to a thread that writes them, and drops lines while the queue is full.

    A write to a full pipe takes until somebody reads it, and the event loop must not wait for that.
    The descriptor cannot be made non-blocking: the shell and other processes share it.

    Attributes:
        descriptor: where the lines are written to.
        form: that of `configure`.
        dropped: the number of lines that found the queue full.
        failed: the number of lines that could not be written.
    """

    def __init__(self, descriptor: int, form: str) -> None:
        super().__init__()
        self.descriptor = descriptor
        self.form = form
        self.dropped = self.failed = 0
        self._told = 0  # of `dropped`, as the log says
        self._lines: Queue[str | None] = Queue(_QUEUE_LINES)
        threading.Thread(target=self._write_all, name="elmo-log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record."""
        try:
            self.write(self.format(record))
        except Exception:
            self.handleError(record)

    def write(self, text: str) -> None:
        """Queue text, which may be several lines."""
        try:
            self._lines.put_nowait(text)
        except Full:
            self.dropped += 1

    def flush(self) -> None:
        """Wait until all lines are written, for a second at most."""
        with (done := self._lines.all_tasks_done):
            done.wait_for(lambda: not self._lines.unfinished_tasks, _FLUSH_SECONDS)

    def close(self) -> None:
        """Write what is waiting, and end the thread."""
        self.flush()
        with suppress(Full):
            self._lines.put_nowait(None)
        super().close()

    def _write_all(self) -> None:
        while (text := self._lines.get()) is not None:
            self.failed += not _write(self.descriptor, text)
            if (dropped := self.dropped) > self._told and self._lines.empty():
                message = f"{dropped - self._told} log lines were dropped: nobody read the log"
                self._told = dropped
                fields = {"msg": message, "name": __name__, "levelname": "WARNING"}
                record = logging.makeLogRecord(fields)
                self.failed += not _write(self.descriptor, self.format(record))
            self._lines.task_done()
        self._lines.task_done()  # else a second `close` would wait in vain


def _write(descriptor: int, text: str) -> bool:
    """Write lines; return False where there is no reader any more, or no room on the disk."""
    rest = memoryview(text.encode(errors="backslashreplace") + b"\n")
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # another process has made the descriptor non-blocking
            poll = select.poll()
            poll.register(descriptor, select.POLLOUT)
            poll.poll()
        except OSError:
            return False
    return True


def _handler() -> _Handler | None:
    """Return the handler of `configure`."""
    handlers = logging.getLogger().handlers
    return next((each for each in handlers if isinstance(each, _Handler)), None)


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
