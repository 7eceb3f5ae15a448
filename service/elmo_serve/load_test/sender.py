"""Sends one request of a load test and counts its outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from elmo_serve.load_test.checker import Checker
from elmo_serve.load_test.connections import Connections, HttpResponse, LostError
from elmo_serve.load_test.tally import Tally
from elmo_serve.load_test.workload import Body

_GRACE_SECONDS = 5.0
"""Seconds beyond the timeout after which a request counts as hung: the server's own 504 arrives."""

_INLINE_BYTES = 64 << 10
"""Responses up to this size are compared on the event loop; a thread costs more than that."""

_REFUSED = (429, 503)
_DEADLINE = 504
_SHOWN = 200  # characters of a response that is an error


@dataclass(frozen=True, slots=True)
class Sent:
    """The end of a request: whether it was lost, and the seconds of `Retry-After`, or 0."""

    is_lost: bool = False
    retry_after: float = 0.0


class Sender:
    """Sends the bodies in turn, again and again, and compares the vectors that come back.

    `media_type` is that of the responses. `timeout_seconds` goes with each request.
    """

    def __init__(
        self,
        connections: Connections,
        bodies: Sequence[Body],
        checker: Checker,
        media_type: str,
        timeout_seconds: float,
    ) -> None:
        self._connections = connections
        self._bodies = bodies
        self._checker = checker
        self._timeout = timeout_seconds
        self._headers = {
            "Content-Type": "application/json",
            "Accept": media_type,
            "X-Request-Timeout": f"{timeout_seconds:g}",
        }
        self._numbers = count()

    async def send(self, tally: Tally, due: float) -> Sent:
        """Send the next body, which was due at that time (`time.perf_counter`), and count it."""
        number = next(self._numbers) % len(self._bodies)
        body = self._bodies[number]
        is_measured = tally.is_measured(due)
        if is_measured:
            tally.sent += 1
            tally.lags.record(time.perf_counter() - due)
        try:
            async with asyncio.timeout(self._timeout + _GRACE_SECONDS):
                response = await self._connections.post("/embed", body.content, self._headers)
        except (LostError, TimeoutError) as error:
            tally.lost += 1
            tally.fault(
                f"lost: {error}" if str(error) else "lost: no response, not even a late one"
            )
            return Sent(is_lost=True)
        ended = time.perf_counter()
        if response.status == 200:
            await self._answered(tally, number, response, due, ended)
        else:
            _count(tally, response, is_measured)
        return Sent(retry_after=_retry_after(response))

    async def _answered(
        self, tally: Tally, number: int, response: HttpResponse, due: float, ended: float
    ) -> None:
        body = self._bodies[number]
        is_late = ended - due > self._timeout
        if tally.is_measured(due):
            tally.answered += not is_late
            tally.late += is_late
            if not is_late:
                tally.latencies.record(ended - due)
        tally.responses += 1
        tally.tokens += body.tokens
        tally.sentences += len(body.sentences)
        tally.sent_bytes += len(body.content)
        tally.received_bytes += len(response.body)
        is_wrong = await self._is_wrong(tally, number, response.body)
        if tally.is_measured(ended) and not is_late and not is_wrong:
            tally.done += 1
            tally.done_tokens += body.tokens

    async def _is_wrong(self, tally: Tally, number: int, content: bytes) -> bool:
        compare = self._checker.difference
        if len(content) <= _INLINE_BYTES:
            found = compare(number, self._bodies[number], content)
        else:
            found = await asyncio.to_thread(compare, number, self._bodies[number], content)
        if found is None:
            return False
        tally.compared += 1
        tally.worst = max(tally.worst, found)
        if found <= 1:
            return False
        tally.wrong += 1
        tally.fault(f"wrong: request body {number} is {found:.3g} tolerances from the reference")
        return True


def _count(tally: Tally, response: HttpResponse, is_measured: bool) -> None:
    """Count a response without vectors."""
    if response.status in _REFUSED:
        tally.refused[response.status] += is_measured
    elif response.status == _DEADLINE:
        tally.late += is_measured
    else:
        tally.failed[response.status] += 1
        text = response.body.decode("utf-8", "replace")[:_SHOWN]
        tally.fault(f"failed: {response.status} {text}")


def _retry_after(response: HttpResponse) -> float:
    """Return the seconds of `Retry-After`; 0 without one, or for a date."""
    try:
        return max(0.0, float(response.headers.get("retry-after", "")))
    except ValueError:
        return 0.0
