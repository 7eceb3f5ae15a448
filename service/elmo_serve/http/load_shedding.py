"""Load shedding: requests refused from their headers while the queue has no room for them.

The middleware asks `LoadShedder` after the parser; after a refusal `EarlyRefusal` asks it before.
"""

import asyncio
import contextvars
import logging
import re
import time
from collections.abc import Callable
from typing import Any, Final

from starlette.types import Scope

from elmo_serve.errors import Overloaded, RequestError
from elmo_serve.http import headers
from elmo_serve.http.errors.problem_details import raw_response
from elmo_serve.scheduling.engine import Engine

_LEARNING_RATE: Final = 0.05
"""Share by which a larger ratio of tokens to bytes moves the estimate upwards. A larger share
forgets sparse bodies sooner and then refuses some that would have had room."""

_LOG_SECONDS: Final = 1.0
"""Refusals of this time share one log line."""

_START: Final = b"POST /embed HTTP/1.1\r\n"

_PLAIN_HEAD: Final = re.compile(
    rb"POST /embed HTTP/1\.1\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[ \t]?[!-~]?[ -~]*\r\n)+\r\n"
)
"""A head in which every parser finds the same lines: names of token characters, values of ASCII."""

_OTHER_FRAMING: Final = frozenset(
    {b"transfer-encoding", b"connection", b"upgrade", b"expect", b"trailer", b"te", b"origin"}
)
"""Headers that change the end of the request, of its connection or of its response. Requests with
one of them are left to the parser."""

_log = logging.getLogger(__name__)


class LoadShedder:
    """Refuses requests whose tokens do not fit into the queue, before their bodies are read.

    The tokens of a body are estimated from its Content-Length, with the lowest ratio of tokens to
    bytes that bodies within the same power of two had recently. The estimate is a lower bound:
    a request that passes is counted exactly after it was parsed. With several models, whose names
    are in the bodies, a request is refused when none of them has room.

    `is_shedding` tells whether the last request was refused.
    """

    def __init__(self, engine: Engine, *, timeout_seconds: float, body_bytes: int) -> None:
        self._engine = engine
        self._admission = engine.admission
        self._timeout_seconds = timeout_seconds
        self._body_bytes = body_bytes
        self.is_shedding = False
        self._refused = 0  # and not logged yet
        self._ratios: dict[int, float] = {}  # tokens a byte, by the bit length of the size

    def learn(self, size: int, cost: int) -> None:
        """Note that a body of `size` bytes had `cost` tokens to compute, boundaries included."""
        found = cost / max(size, 1)
        bits = size.bit_length()
        known = self._ratios.get(bits, found)
        self._ratios[bits] = min(found, known + _LEARNING_RATE * (found - known))

    def check(self, scope: Scope) -> None:
        """Answer 503 to a parsed `POST /embed` while the queue has no room for it."""
        if scope["path"] == "/embed" and scope["method"] == "POST":
            error = self.refusal(scope)
            if error is not None:
                scope["state"]["is_shed"] = True
                raise error

    def refusal(self, scope: Scope) -> Overloaded | None:
        """Return the error for a `POST /embed` that the queue has no room for, else None.

        Only the headers of `scope` are read. Requests with faulty headers pass, and all while the
        server is not ready: the route answers them.
        """
        error = self._refusal(scope) if self._admission.outstanding else None
        self.is_shedding = error is not None
        if error is not None:
            self._note()
        return error

    def _refusal(self, scope: Scope) -> Overloaded | None:
        size = headers.content_length(scope) or 0
        if not 0 < size <= self._body_bytes:
            return None
        cost = int(size * self._ratios.get(size.bit_length(), 0.0))
        if not cost:
            return None
        try:
            headers.media_type(scope)
            timeout = headers.timeout_seconds(scope, self._timeout_seconds)
        except RequestError:
            return None
        error = None
        for model in self._engine.models:
            if self._engine.unavailable_reason(model) is None:
                error = self._admission.refusal(cost, timeout, model)
                if error is None:
                    return None
        return error

    def _note(self) -> None:
        """Count a refusal for the log: a line for each would cost as much as refusing it."""
        if not self._refused:
            # In a context of its own: the line belongs to no single request id.
            asyncio.get_running_loop().call_later(
                _LOG_SECONDS, self._write_log, context=contextvars.Context()
            )
        self._refused += 1

    def _write_log(self) -> None:
        fields = {"requests": self._refused, "why": Overloaded.title}
        _log.info("requests shed", extra=fields)
        self._refused = 0


class EarlyRefusal:
    """Answers 503 to plain requests while the queue is full, for a fifth of the parser's time.

    It answers as the middleware would, from the same rules: `LoadShedder` decides, and `is_allowed`
    checks the API key. Every request that is unusual in any way is left to the parser: this class
    refuses requests, it never admits one. `count` is that of `RequestMetrics`.
    """

    def __init__(
        self,
        shedder: LoadShedder,
        count: Callable[[str, str, int, float], None],
        is_allowed: Callable[[dict[str, Any]], bool],
    ) -> None:
        self._shedder = shedder
        self._count = count
        self._is_allowed = is_allowed

    @property
    def is_active(self) -> bool:
        """Whether the last request was refused: the first refusal is the middleware's."""
        return self._shedder.is_shedding

    def response(self, data: bytes) -> bytes | None:
        """Return the response to the request that `data` is; None to have it parsed.

        `data` must be one whole request, body included, with nothing after it.
        """
        if not data.startswith(_START):
            return None
        start = time.perf_counter()
        scope = _scope(data)
        if scope is None or not self._is_allowed(scope):
            return None
        error = self._shedder.refusal(scope)
        if error is None:
            return None
        response = raw_response(error, headers.request_id(scope))
        self._count("POST", "/embed", error.status, time.perf_counter() - start)
        return response


def _scope(data: bytes) -> dict[str, Any] | None:
    """Return the headers as an ASGI scope has them; None where anything is unusual."""
    head = _PLAIN_HEAD.match(data)
    if head is None:
        return None
    lines = data[len(_START) : head.end() - 4].split(b"\r\n")
    fields = [
        (name.lower(), value.strip()) for name, _, value in (x.partition(b":") for x in lines)
    ]
    names = {name for name, _ in fields}
    scope = {"headers": fields}
    if (
        len(names) < len(fields)
        or b"host" not in names
        or names & _OTHER_FRAMING
        or headers.content_length(scope) != len(data) - head.end()
    ):
        return None
    return scope
