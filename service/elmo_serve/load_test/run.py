"""Load on POST /embed: a closed or an open loop, in which every response is compared."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import orjson
import safetensors.numpy
from numpy.typing import NDArray

from elmo_model.errors import OptionError
from elmo_serve.load_test.connections import Connections, LostError
from elmo_serve.output import MEDIA_TYPES

TOLERANCES = {"float32": 1e-5, "float16": 1e-3}
"""Largest difference of a right response, relative to the largest value of the first one."""

KEPT_BYTES = 256 << 20
"""Bytes of first responses that are kept. With a higher value more responses are compared."""

TIMEOUT_SECONDS = 60.0
_GRACE_SECONDS = 5.0  # beyond the timeout, in which the server's own 504 arrives
_LOST_PAUSE_SECONDS = 0.1  # after a lost request, so that a dead server is not asked without end
_INLINE_BYTES = 64 << 10  # responses up to this size are compared on the event loop, in no thread
_MAX_FAULTS, _SHOWN = 5, 200  # last faults kept as text, and characters of each

Send = Callable[["Phase", float], Coroutine[Any, Any, float]]
"""`Sender.send`: sends a request that is due at a time, and returns a pause in seconds."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to POST /embed: its JSON, its tokens, and the media type of the response.

    `difference` maps a response to its largest difference in tolerances: above 1 it is wrong. None:
    there is nothing to compare it with.
    """

    content: bytes
    tokens: int
    media_type: str
    difference: Callable[[bytes], float | None]


class Reference:
    """Compares each response with the first one to the same body, in safetensors."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._left = kept_bytes
        self._first: dict[bytes, bytes] = {}

    def request(self, body: bytes) -> Request:
        """Return the request with a body. Raises OptionError where that is no JSON object."""
        try:
            members = dict(orjson.loads(body))
        except (ValueError, TypeError) as error:
            raise OptionError(
                f"{_text(body)!r} is no JSON object, the body of a request"
            ) from error
        texts = members.get("sentences") or members.get("text") or ()
        tokens = sum(len(text.split() if isinstance(text, str) else text) for text in texts)
        return Request(body, tokens, MEDIA_TYPES["safetensors"], partial(self.difference, body))

    def difference(self, body: bytes, content: bytes) -> float | None:
        """Return the largest difference in tolerances; infinite for other shapes or no vectors."""
        first = self._first.get(body)
        if content == first:
            return 0.0
        vectors = _vectors(content)
        if not vectors:
            return math.inf
        if first is None:
            if len(content) <= self._left:
                self._left -= len(content)
                self._first[body] = content
            return None
        expected = _vectors(first)
        if [each.shape for each in vectors] != [each.shape for each in expected]:
            return math.inf
        furthest = max(map(_largest, map(np.subtract, vectors, expected)))
        allowed = TOLERANCES[expected[0].dtype.name] * max(map(_largest, expected))
        return furthest / allowed if allowed else math.inf if furthest else 0.0


def _vectors(content: bytes) -> list[NDArray[Any]]:
    """Return the vectors of a response; none where it is damaged or a number is not finite."""
    try:
        arrays = [each for _, each in sorted(safetensors.numpy.load(content).items())]
    except Exception:  # the reader has errors of its own
        return []
    return arrays if all(np.isfinite(each).all() for each in arrays) else []


def _largest(vectors: NDArray[Any]) -> float:
    return float(np.abs(vectors).max(initial=0.0))


def _text(content: bytes) -> str:
    return content[:_SHOWN].decode("utf-8", "replace")


def percentile(times: Sequence[float], percent: float) -> float:
    """Return a percentile of some times; NaN without any."""
    return float(np.percentile(times, percent)) if times else math.nan


@dataclass(slots=True)
class Phase:
    """Counts of some seconds of load. Times are seconds of `time.perf_counter`.

    Only requests due from `since` to `until` are counted; wrong, failed and lost requests are also
    counted during the warm-up before. A refusal (429, 503) is a response of a healthy server. A
    late request was answered 504, or after the timeout.

    Attributes:
        latencies: from the time a request was due to the end of its response, of answers in time.
        done, done_tokens: right answers in time that came within the window, and their tokens.
        worst: the largest difference of an answer, in tolerances.
    """

    name: str
    since: float = -math.inf
    until: float = math.inf
    sent: int = 0
    answered: int = 0
    late: int = 0
    lost: int = 0
    wrong: int = 0
    compared: int = 0
    done: int = 0
    done_tokens: int = 0
    worst: float = 0.0
    refused: Counter[int] = field(default_factory=Counter)
    failed: Counter[int] = field(default_factory=Counter)
    faults: deque[str] = field(default_factory=partial(deque, maxlen=_MAX_FAULTS))
    latencies: list[float] = field(default_factory=list)

    def is_measured(self, time: float) -> bool:
        """Tell whether a time is in the window."""
        return self.since <= time < self.until

    @property
    def requests_per_second(self) -> float:
        """Requests a second that were answered, right and in time."""
        return self.done / (self.until - self.since)

    @property
    def tokens_per_second(self) -> float:
        """Their tokens a second: the goodput."""
        return self.done_tokens / (self.until - self.since)

    @property
    def is_bad(self) -> bool:
        """Whether a vector was wrong, a request lost, or a response neither vectors nor refusal."""
        return bool(self.wrong or self.lost or self.failed)

    def summary(self) -> dict[str, Any]:
        """Return rates, latencies (NaN without any) and counts by name, as JSON has them."""
        times = {f"p{each}": percentile(self.latencies, each) for each in (50, 90, 99, 100)}
        names = ("answered", "refused", "late", "failed", "lost", "wrong", "compared", "worst")
        return {
            "load": self.name,
            "requests_per_second": self.requests_per_second,
            "tokens_per_second": self.tokens_per_second,
            **{f"latency_{name}_ms": 1e3 * seconds for name, seconds in times.items()},
            **{name: getattr(self, name) for name in names},
            "faults": list(self.faults),
        }


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends requests, and compares the vectors that come back."""

    connections: Connections
    requests: Iterator[Request]
    timeout_seconds: float = TIMEOUT_SECONDS

    async def send(self, phase: Phase, due: float) -> float:
        """Send the next request, which was due at that time (`time.perf_counter`), and count it.

        Return the seconds that a client should wait before its next request.
        """
        request = next(self.requests)
        is_measured = phase.is_measured(due)
        phase.sent += is_measured
        headers = {
            "Content-Type": "application/json",
            "Accept": request.media_type,
            "X-Request-Timeout": f"{self.timeout_seconds:g}",
        }
        try:
            async with asyncio.timeout(self.timeout_seconds + _GRACE_SECONDS):
                response = await self.connections.post("/embed", request.content, headers)
        except (LostError, TimeoutError) as error:
            phase.lost += 1
            phase.faults.append(f"lost: {str(error) or 'no response, not even a late one'}")
            return _LOST_PAUSE_SECONDS
        if response.status == 200:
            await self._answered(phase, request, response.body, due)
        elif response.status in (429, 503):
            phase.refused[response.status] += is_measured
        elif response.status == 504:
            phase.late += is_measured
        else:
            phase.failed[response.status] += 1
            phase.faults.append(f"failed: {response.status} {_text(response.body)}")
        wait = response.headers.get("retry-after", "")
        return float(wait) if wait.isdecimal() else 0.0

    async def _answered(self, phase: Phase, request: Request, body: bytes, due: float) -> None:
        ended = time.perf_counter()
        is_late = ended - due > self.timeout_seconds
        if phase.is_measured(due):
            phase.answered += not is_late
            phase.late += is_late
            if not is_late:
                phase.latencies.append(ended - due)
        compare = partial(request.difference, body)
        found = compare() if len(body) <= _INLINE_BYTES else await asyncio.to_thread(compare)
        if found is not None:
            phase.compared += 1
            phase.worst = max(phase.worst, found)
        if found is not None and found > 1:
            phase.wrong += 1
            phase.faults.append(f"wrong: {found:.3g} tolerances: {_text(request.content)}")
        elif phase.is_measured(ended) and not is_late:
            phase.done += 1
            phase.done_tokens += request.tokens


async def closed_loop(
    send: Send, phase: Phase, clients: int, clock: Callable[[], float] = time.perf_counter
) -> None:
    """Let clients send one request after another until `phase.until`.

    Each client sends its next request after a response, so a slow server gets fewer requests. A
    refused client waits as long as `Retry-After` says.
    """

    async def client() -> None:
        while (now := clock()) < phase.until:
            if pause := await send(phase, now):
                await asyncio.sleep(min(pause, max(0.0, phase.until - clock())))

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())


async def open_loop(
    send: Send,
    phase: Phase,
    rate: float,
    source: random.Random,
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """Send `rate` requests a second, as a Poisson process, until `phase.until`; repeat none.

    Latencies begin when a request is due, also for one that is sent late: no coordinated omission.
    """
    due = clock()
    async with asyncio.TaskGroup() as group:
        while (due := due + source.expovariate(rate)) < phase.until:
            await asyncio.sleep(max(0.0, due - clock()))
            group.create_task(send(phase, due))
