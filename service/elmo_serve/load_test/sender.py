"""Sends one request of a load test and counts its outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from elmo_serve.load_test.connections import Connections, HttpResponse, LostError
from elmo_serve.load_test.phase import Phase

_GRACE_SECONDS = 5.0
"""Seconds beyond the timeout after which a request counts as hung: the server's own 504 arrives."""

_INLINE_BYTES = 64 << 10
"""Responses up to this size are compared on the event loop; a thread costs more than that."""

_LOST_PAUSE_SECONDS = 0.1
"""Pause of a client after a lost request, so that a dead server is not asked without end."""

_REFUSED = (429, 503)
_DEADLINE = 504
_SHOWN = 200  # characters of a response that is an error


@dataclass(frozen=True, slots=True)
class Request:
    """A request to POST /embed: its JSON, its tokens, and the media type of the response.

    `difference` returns the largest difference of a response from the right vectors, in
    tolerances: above 1 it is wrong. It returns None where there is nothing to compare with.
    """

    content: bytes
    tokens: int
    media_type: str
    difference: Callable[[bytes], float | None]


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends requests, and compares the vectors that come back.

    `timeout_seconds` goes with each request.
    """

    connections: Connections
    requests: Iterator[Request]
    timeout_seconds: float

    async def send(self, phase: Phase, due: float) -> float:
        """Send the next request, which was due at that time (`time.perf_counter`), and count it.

        Return the seconds that a client should wait before its next request.
        """
        request = next(self.requests)
        is_measured = phase.is_measured(due)
        if is_measured:
            phase.sent += 1
            phase.lags.append(time.perf_counter() - due)
        try:
            async with asyncio.timeout(self.timeout_seconds + _GRACE_SECONDS):
                response = await self._post(request)
        except (LostError, TimeoutError) as error:
            phase.lost += 1
            phase.fault(f"lost: {str(error) or 'no response, not even a late one'}")
            return _LOST_PAUSE_SECONDS
        if response.status == 200:
            await self._answered(phase, request, response, due)
        else:
            _count(phase, response, is_measured)
        return _retry_after(response)

    async def _post(self, request: Request) -> HttpResponse:
        headers = {
            "Content-Type": "application/json",
            "Accept": request.media_type,
            "X-Request-Timeout": f"{self.timeout_seconds:g}",
        }
        return await self.connections.post("/embed", request.content, headers)

    async def _answered(
        self, phase: Phase, request: Request, response: HttpResponse, due: float
    ) -> None:
        ended = time.perf_counter()
        is_late = ended - due > self.timeout_seconds
        if phase.is_measured(due):
            phase.answered += not is_late
            phase.late += is_late
            if not is_late:
                phase.latencies.append(ended - due)
        phase.responses += 1
        phase.tokens += request.tokens
        phase.sent_bytes += len(request.content)
        phase.received_bytes += len(response.body)
        is_right = await _is_right(phase, request, response.body)
        if phase.is_measured(ended) and is_right and not is_late:
            phase.done += 1
            phase.done_tokens += request.tokens


async def _is_right(phase: Phase, request: Request, content: bytes) -> bool:
    if len(content) <= _INLINE_BYTES:
        found = request.difference(content)
    else:
        found = await asyncio.to_thread(request.difference, content)
    if found is None:
        return True
    phase.compared += 1
    phase.worst = max(phase.worst, found)
    if found <= 1:
        return True
    phase.wrong += 1
    phase.fault(f"wrong: {found:.3g} tolerances from the reference: {_text(request.content)}")
    return False


def _count(phase: Phase, response: HttpResponse, is_measured: bool) -> None:
    """Count a response without vectors."""
    if response.status in _REFUSED:
        phase.refused[response.status] += is_measured
    elif response.status == _DEADLINE:
        phase.late += is_measured
    else:
        phase.failed[response.status] += 1
        phase.fault(f"failed: {response.status} {_text(response.body)}")


def _text(content: bytes) -> str:
    return content[:_SHOWN].decode("utf-8", "replace")


def _retry_after(response: HttpResponse) -> float:
    """Return the seconds of `Retry-After`; 0 without one, or for a date."""
    try:
        return max(0.0, float(response.headers.get("retry-after", "")))
    except ValueError:
        return 0.0
