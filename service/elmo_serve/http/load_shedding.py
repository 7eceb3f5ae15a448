"""Load shedding: requests refused from their headers while the queue has no room for them."""

from typing import Final

from starlette.types import Scope

from elmo_serve.errors import Overloaded, RequestError
from elmo_serve.http import headers
from elmo_serve.scheduling.engine import Engine

_LEARNING_RATE: Final = 0.05
"""Share by which a larger ratio of tokens to bytes moves the estimate upwards. A larger share
forgets sparse bodies sooner and then refuses some that would have had room."""


class LoadShedder:
    """Refuses requests whose tokens do not fit into the queue, before their bodies are read.

    The tokens of a body are estimated from its Content-Length, with the lowest ratio of tokens to
    bytes that bodies within the same power of two had recently. The estimate is a lower bound:
    a request that passes is counted exactly after it was parsed. With several models, whose names
    are in the bodies, a request is refused when none of them has room.
    """

    def __init__(self, engine: Engine, *, timeout_seconds: float, body_bytes: int) -> None:
        self._engine = engine
        self._admission = engine.admission
        self._timeout_seconds = timeout_seconds
        self._body_bytes = body_bytes
        self._ratios: dict[int, float] = {}  # tokens a byte, by the bit length of the size

    def learn(self, size: int, cost: int) -> None:
        """Note that a body of `size` bytes had `cost` tokens to compute, boundaries included."""
        found = cost / max(size, 1)
        bits = size.bit_length()
        known = self._ratios.get(bits, found)
        self._ratios[bits] = min(found, known + _LEARNING_RATE * (found - known))

    def check(self, scope: Scope) -> None:
        """Answer 503 to a `POST /embed` that the queue has no room for.

        Only the headers of `scope` are read. Requests with faulty headers pass, and all while the
        server is not ready: the route answers them.
        """
        if (scope["path"], scope["method"]) != ("/embed", "POST"):
            return
        cost = self._least_cost(scope) if self._admission.outstanding else 0
        if not cost:
            return
        try:
            headers.media_type(scope)
            timeout = headers.timeout_seconds(scope, self._timeout_seconds)
        except RequestError:
            return
        error: Overloaded | None = None
        for model in self._engine.models:
            if self._engine.unavailable_reason(model) is None:
                error = self._admission.refusal(cost, timeout, model)
                if error is None:
                    return
        if error is not None:
            raise error

    def _least_cost(self, scope: Scope) -> int:
        """Return the least number of tokens that the body can have; 0 where that is unknown."""
        size = headers.content_length(scope) or 0
        if not 0 < size <= self._body_bytes:
            return 0
        return int(size * self._ratios.get(size.bit_length(), 0.0))
