"""Refusals of `POST /embed` from the bytes of a request, before the HTTP parser, under overload."""

import re
import time
from collections.abc import Callable
from typing import Any, Final

from elmo_serve.http import headers
from elmo_serve.http.errors.problem_details import raw_response
from elmo_serve.http.load_shedding import LoadShedder
from elmo_serve.http.middleware.context import RequestMetrics

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


class EarlyRefusal:
    """Answers 503 to plain requests while the queue is full, for a fifth of the parser's time.

    It answers as the middleware would, from the same rules: `LoadShedder` decides, and `is_allowed`
    checks the API key. Every request that is unusual in any way is left to the parser: this class
    refuses requests, it never admits one.
    """

    def __init__(
        self,
        shedder: LoadShedder,
        metrics: RequestMetrics,
        is_allowed: Callable[[dict[str, Any]], bool],
    ) -> None:
        self._shedder = shedder
        self._metrics = metrics
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
        self._metrics.count("POST", "/embed", error.status, time.perf_counter() - start)
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
