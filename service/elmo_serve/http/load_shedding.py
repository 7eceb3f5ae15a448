"""Load shedding: requests refused from their headers while the queue has no room for them."""

import asyncio
import contextvars
import logging
from typing import Final

from starlette.types import Scope

from elmo_serve.errors import Overloaded, RequestError
from elmo_serve.http import headers
from elmo_serve.scheduling.engine import Engine

_LEARNING_RATE: Final = 0.05
"""Share by which a larger ratio of tokens to bytes moves the estimate upwards. A larger share
forgets sparse bodies sooner and then refuses some that would have had room."""

_LOG_SECONDS: Final = 1.0
"""Refusals of this time share one log line."""

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
        """Note that a body of `size` bytes held `cost` tokens, boundaries included."""
        found = cost / max(size, 1)
        bits = size.bit_length()
        known = self._ratios.get(bits, found)
        self._ratios[bits] = min(found, known + _LEARNING_RATE * (found - known))

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
            headers.check_json(scope)
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
