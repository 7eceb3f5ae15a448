"""One request of a load test, against a server that follows a script."""

from __future__ import annotations

import math
import time
from http.server import BaseHTTPRequestHandler
from itertools import cycle

import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray

from elmo_serve.load_test.connections import Connections
from elmo_serve.load_test.run import Phase, Reference, Sender
from tests.support.scripted_server import (
    ScriptedServer,
    correct,
    hang_up,
    refuse,
    respond,
)

SAFE = "application/vnd.safetensors"
BODIES = [b'{"sentences": [["%d", "0"]]}' % number for number in (1, 2)]


class Sends:
    """A sender, its phase and its connections, for one test."""

    def __init__(self, url: str, *, timeout: float = 60.0) -> None:
        now = time.perf_counter()
        self.phase = Phase("test", now - 1_000, now + 1_000)
        self.connections = Connections(url, 4)
        requests = list(map(Reference().request, BODIES))
        self._sender = Sender(self.connections, cycle(requests), timeout)

    async def __call__(self, due: float | None = None) -> float:
        try:
            return await self._sender.send(self.phase, due or time.perf_counter())
        finally:
            await self.connections.close()


def wrong(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    """Respond with the vectors of another sentence."""
    correct(handler, body.replace(b'"1"', b'"3"').replace(b'"2"', b'"3"'))


async def test_right_answers_count_with_their_tokens(scripted: ScriptedServer) -> None:
    send = Sends(scripted.url)
    for _ in range(4):
        await send()

    phase = send.phase
    assert (phase.sent, phase.answered, phase.done, phase.done_tokens) == (4, 4, 4, 8)
    assert (phase.compared, phase.wrong, phase.worst) == (2, 0, 0.0)
    assert {headers["X-Request-Timeout"] for _, headers in scripted.requests} == {"60"}


@pytest.mark.parametrize(
    ("allowed", "left", "late", "done"),
    [(600, 1_000, 0, 1), (600, -1, 0, 0), (10, 1_000, 1, 0)],
    ids=["done", "after the end", "late"],
)
async def test_an_answer_counts_when_it_comes_and_its_latency_from_when_it_was_due(
    scripted: ScriptedServer, allowed: float, left: float, late: int, done: int
) -> None:
    send = Sends(scripted.url, timeout=allowed)
    send.phase.until = time.perf_counter() + left
    await send(due=time.perf_counter() - 20)

    phase = send.phase
    assert (phase.late, phase.answered, phase.done) == (late, 1 - late, done)
    assert len(phase.latencies) == 1 - late and all(each >= 20 for each in phase.latencies)
    assert not phase.is_bad


async def test_a_wrong_vector_is_named(scripted: ScriptedServer) -> None:
    scripted.script = [correct, correct, wrong, correct]
    send = Sends(scripted.url)
    for _ in range(4):
        await send()

    assert (send.phase.wrong, send.phase.done) == (1, 3)
    assert send.phase.worst > 1
    assert send.phase.faults[0].endswith(BODIES[0].decode())


@pytest.mark.parametrize("status", [429, 503])
async def test_a_refusal_counts_apart_from_failures(scripted: ScriptedServer, status: int) -> None:
    scripted.script = [refuse(status, Retry_After="3")]
    send = Sends(scripted.url)

    assert await send() == 3
    assert send.phase.refused == {status: 1}
    assert not send.phase.is_bad and not send.phase.faults


async def test_a_gateway_timeout_is_late_and_another_error_failed(scripted: ScriptedServer) -> None:
    scripted.script = [refuse(504), refuse(500)]
    send = Sends(scripted.url)
    await send()
    await send()

    assert send.phase.late == 1
    assert send.phase.failed == {500: 1}
    assert "not now" in send.phase.faults[0]


async def test_a_broken_connection_is_a_lost_request(scripted: ScriptedServer) -> None:
    scripted.script = [hang_up]
    send = Sends(scripted.url)

    assert await send() == 0.1, "a dead server is not asked without end"
    assert send.phase.lost == 1 and send.phase.faults[0].startswith("lost: ")


async def test_the_warm_up_counts_wrong_and_lost_requests_alone(scripted: ScriptedServer) -> None:
    scripted.script = [correct, refuse(503), hang_up]
    send = Sends(scripted.url)
    send.phase.since = time.perf_counter() + 500
    for _ in range(3):
        await send()

    phase = send.phase
    assert (phase.sent, phase.answered, phase.done, phase.refused.total()) == (0, 0, 0, 0)
    assert phase.lost == 1


async def test_a_large_response_is_compared_too(scripted: ScriptedServer) -> None:
    def large(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
        respond(handler, 200, b"x" * 100_000, SAFE)

    scripted.script = [large]
    send = Sends(scripted.url)
    await send()

    assert send.phase.wrong == 1


def vectors(*arrays: NDArray[np.floating]) -> bytes:
    """Return the body of a response with these vectors."""
    return safetensors.numpy.save({str(index): array for index, array in enumerate(arrays)})


ONE = np.ones((3, 2, 4), np.float32)
FIRST = vectors(ONE, 1_000 * ONE)


@pytest.mark.parametrize(
    ("later", "is_right"),
    [
        (FIRST, True),
        (vectors(ONE + 0.009, 1_000 * ONE), True),  # by the largest value of the whole response
        (vectors(ONE + 0.011, 1_000 * ONE), False),
        (vectors(ONE), False),
        (vectors(ONE, 1_000 * ONE[:, :1]), False),
        (vectors(ONE, np.full_like(ONE, np.nan)), False),
        (FIRST[:-1], False),
        (vectors(), False),
    ],
)
def test_a_response_is_right_by_the_first_one_to_its_body(later: bytes, is_right: bool) -> None:
    request = Reference().request(BODIES[0])
    assert request.difference(FIRST) is None

    found = request.difference(later)
    assert found is not None and (found <= 1) == is_right


def test_float16_has_the_tolerance_of_its_digits() -> None:
    request = Reference().request(BODIES[0])
    request.difference(vectors(ONE.astype(np.float16)))

    assert request.difference(vectors((ONE - 0.0009).astype(np.float16))) == pytest.approx(1, 0.1)


def test_a_first_response_of_zeros_allows_zeros_alone() -> None:
    request = Reference().request(BODIES[0])
    request.difference(vectors(0 * ONE))

    assert request.difference(vectors(0 * ONE)) == 0
    assert request.difference(vectors(1e-9 * ONE)) == math.inf


def test_first_responses_are_kept_up_to_a_bound() -> None:
    reference = Reference(kept_bytes=len(FIRST))
    kept, beyond = map(reference.request, BODIES)

    assert [kept.difference(FIRST), beyond.difference(FIRST)] == [None, None]
    assert [kept.difference(FIRST), beyond.difference(FIRST)] == [0, None]


def test_tokens_are_counted_in_lists_and_in_text() -> None:
    bodies = (b'{"sentences": [["a", "b"], []]}', b'{"text": ["a b c"], "layers": "top"}')

    assert [Reference().request(body).tokens for body in bodies] == [2, 3]
