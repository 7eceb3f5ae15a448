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
    a request that passes is counted exactly after it was parsed.
    """

    def __init__(self, engine: Engine, *, timeout_seconds: float, body_bytes: int) -> None:
        self._engine = engine
        self._admission = engine.admission
        self._timeout_seconds = timeout_seconds
        self._body_bytes = body_bytes
        self._ratios: dict[int, float] = {}  # tokens a byte, by the bit length of the size

    def learn(self, size: int, cost: int) -> None:
        """Note that a body of `size` bytes held `cost` tokens, boundaries included."""
        found = cost / max(size, 1)
        bits = size.bit_length()
        known = self._ratios.get(bits, found)
        self._ratios[bits] = min(found, known + _LEARNING_RATE * (found - known))

    def refusal(self, scope: Scope) -> Overloaded | None:
        """Return the error for a `POST /embed` that the queue has no room for, else None.

        The headers do not name the model: a request passes if one of the models has room. Requests
        with faulty headers pass, and all while no model is ready: the route answers them.
        """
        if not self._admission.outstanding:
            return None
        ready = [model for model in self._engine.queues if self._engine.why_not(model) is None]
        size = headers.content_length(scope) or 0
        if not 0 < size <= self._body_bytes:
            return None
        try:
            headers.check_json(scope)
            timeout = headers.timeout_seconds(scope, self._timeout_seconds)
        except RequestError:
            return None
        cost = int(size * self._ratios.get(size.bit_length(), 0.0))
        if not cost:
            return None
        refusals = [self._admission.refusal(cost, timeout, model) for model in ready]
        return None if None in refusals or not refusals else refusals[0]
