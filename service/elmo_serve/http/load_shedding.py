"""Requests that are refused before they are read: the queue has no room for what they hold."""

from __future__ import annotations

import asyncio
import logging

from starlette.types import Scope

from elmo_serve.errors import Overloaded, RequestError
from elmo_serve.http import headers
from elmo_serve.metrics import Metrics
from elmo_serve.scheduling.admission import Admission

_log = logging.getLogger("elmo_serve.http.load_shedding")

_LEARNING = 0.05  # of the way up, for a body that held more
_TOLD_SECONDS = 1.0
_DIGITS = 16  # of a length that is looked at: a longer one is over every limit


class Door:
    """Turns away what would not be admitted, for a fraction of what it takes to read it.

    How many tokens a body holds shows when it is parsed. What is assumed is the fewest that bodies
    about as large, within a power of two, held of late: what passes is looked at as always.
    """

    def __init__(
        self, admission: Admission, metrics: Metrics, *, timeout_seconds: float, body_bytes: int
    ) -> None:
        self._admission = admission
        self._timeout_seconds = timeout_seconds
        self._body_bytes = body_bytes
        self._least: dict[int, float] = {}  # tokens a byte, by the bits of the size
        self._count = metrics.http_requests.labels("POST", "/embed", str(Overloaded.status))
        self._duration = metrics.http_request_duration.labels("/embed")
        self._untold = 0

    def learn(self, size: int, cost: int) -> None:
        """Take in what a body of ``size`` bytes held, in tokens with their boundaries."""
        found = cost / max(size, 1)
        bits = size.bit_length()
        known = self._least.get(bits, found)
        self._least[bits] = min(found, known + _LEARNING * (found - known))

    def refusal(self, scope: Scope) -> Overloaded | None:
        """Return why a POST /embed is refused, by its headers; None when it is to be read.

        What is wrong with a request is for the route to say.
        """
        if not self._admission.outstanding:
            return None
        announced = headers.first(scope, b"content-length") or ""
        size = int(announced) if announced.isdecimal() and len(announced) < _DIGITS else 0
        if not 0 < size <= self._body_bytes:
            return None
        try:
            headers.check_json(scope)
            timeout = headers.timeout_seconds(scope, self._timeout_seconds)
        except RequestError:
            return None
        cost = int(size * self._least.get(size.bit_length(), 0.0))
        refusal = self._admission.refusal(cost, timeout) if cost else None
        if refusal is not None:
            self._note()
        return refusal

    def _note(self) -> None:
        self._count.inc()
        self._duration.observe(0.0)
        if not self._untold:
            asyncio.get_running_loop().call_later(_TOLD_SECONDS, self._tell)
        self._untold += 1

    def _tell(self) -> None:
        """Log them together: a line for each would cost as much as refusing it."""
        _log.info("refused unread", extra={"requests": self._untold, "why": Overloaded.title})
        self._untold = 0
