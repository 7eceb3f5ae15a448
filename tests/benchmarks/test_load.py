"""The load generator: its connections, its loops in virtual time, and what it counts as right."""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from itertools import cycle

import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray

from benchmarks.comparison import Reference
from benchmarks.connections import Connections, LostError
from benchmarks.load import Phase, Sender, closed_loop, open_loop
from tests.support.clock import VirtualLoop, in_virtual_time
from tests.support.scripted_server import (
    Responder,
    ScriptedServer,
    correct,
    hang_up,
    refuse,
    respond,
)
from tests.support.servers import Running, free_port
from tests.test_benchmarks import started

WHOLE = b"HTTP/1.1 200 OK\r\nX-Some: Thing\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n3\r\nays\r\n0\r\n\r\n"
CLOSING = b"HTTP/1.1 503 No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
CUT = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"
BODIES = [b'{"sentences": [["%d", "0"]]}' % number for number in (1, 2)]


@dataclass(slots=True)
class Bytes:
    """A server that answers each request with the next of some bytes; an empty one hangs up."""

    responses: Sequence[bytes]
    url: str = ""
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0


@asynccontextmanager
async def serving(*responses: bytes) -> AsyncIterator[Bytes]:
    found = Bytes(responses)
    left = iter(responses)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
                await reader.readexactly(length)
                found.heads.append(head)
                response = next(left)
                writer.write(response)
                if response in (b"", CUT, CLOSING):
                    break
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()
            await writer.wait_closed()

    handlers: list[asyncio.Task[None]] = []
    server = await asyncio.start_server(
        lambda *streams: handlers.append(asyncio.create_task(serve(*streams))), "127.0.0.1", 0
    )
    async with server:
        found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield found
    await asyncio.gather(*handlers)


async def test_bodies_with_a_length_and_in_chunks_arrive_over_one_connection() -> None:
    async with serving(WHOLE, CHUNKED, WHOLE) as server:
        connections = Connections(server.url + "/under/", 1)
        first = await connections.post("/embed", b"{}", {"Accept": "x/y"})
        both = await asyncio.gather(*(connections.post("/embed", b"{}", {}) for _ in range(2)))
        await connections.close()

    assert (first.status, first.headers["x-some"], first.body) == (200, "Thing", b"ok")
    assert {each.body for each in both} == {b"okays", b"ok"}
    assert server.connections == 1, "the third request waited for the only connection"
    assert server.heads[0].startswith(b"POST /under/embed HTTP/1.1\r\n")
    assert b"x/y" in server.heads[0]


async def test_a_closed_connection_is_not_used_again() -> None:
    async with serving(CLOSING, WHOLE) as server:
        connections = Connections(server.url, 4)
        responses = [await connections.post("/embed", b"{}", {}) for _ in range(2)]
        await connections.close()

    assert [each.status for each in responses] == [503, 200]
    assert server.connections == 2


@pytest.mark.parametrize("response", [b"", CUT, b"nonsense\r\n\r\n"])
async def test_a_request_without_a_whole_response_is_lost(response: bytes) -> None:
    async with serving(response) as server:
        connections = Connections(server.url, 4)
        with pytest.raises(LostError, match=r".+"):
            await connections.post("/embed", b"{}", {})
        await connections.close()


class Server:
    """Answers each request after some seconds; keeps the times of all requests."""

    def __init__(self, seconds: float, pause: float = 0.0, stall: float = 0.0) -> None:
        self._seconds = seconds
        self._pause = pause
        self._stall = stall
        self.due: list[float] = []
        self.sent: list[float] = []

    async def send(self, _phase: Phase, due: float) -> float:
        self.due.append(due)
        self.sent.append(now())
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.now += self._stall
        await asyncio.sleep(self._seconds)
        return self._pause


def now() -> float:
    return asyncio.get_running_loop().time()


def phase(seconds: float) -> Phase:
    return Phase("", now(), now() + seconds)


@in_virtual_time
async def test_a_client_of_a_closed_loop_waits_for_its_answer_and_its_pause() -> None:
    server, paused = Server(2.0), Server(0.0, pause=4.0)
    await closed_loop(server.send, phase(10.0), 3, now)
    await closed_loop(paused.send, phase(10.0), 1, now)

    assert server.due == server.sent == [t for t in (0.0, 2.0, 4.0, 6.0, 8.0) for _ in range(3)]
    assert paused.sent == [10.0, 14.0, 18.0]
    assert now() == 20.0, "the last pause ends with the phase"


@in_virtual_time
async def test_an_open_loop_is_a_poisson_process_whether_it_is_answered_or_not() -> None:
    server = Server(10_000.0)
    await open_loop(server.send, phase(2_000.0), 5.0, random.Random(1), now)

    gaps = [later - sooner for sooner, later in zip(server.due, server.due[1:], strict=False)]
    assert server.sent == pytest.approx(server.due)
    assert len(server.due) == pytest.approx(10_000, rel=0.03)
    assert statistics.mean(gaps) == pytest.approx(0.2, rel=0.03)
    assert statistics.stdev(gaps) == pytest.approx(0.2, rel=0.05)
    assert now() > 10_000, "it waits for the answers"


@in_virtual_time
async def test_a_stalled_load_generator_does_not_shift_what_is_due() -> None:
    """Coordinated omission: requests that could not be sent in time count from their due time."""
    usual, stalled = Server(0.0), Server(0.0, stall=3.0)
    await open_loop(usual.send, phase(20.0), 1.0, random.Random(1), now)
    shift = now()
    await open_loop(stalled.send, phase(20.0), 1.0, random.Random(1), now)

    assert [due - shift for due in stalled.due] == pytest.approx(usual.due)
    assert stalled.sent[-1] - stalled.due[-1] > 20


class Sends:
    """A sender and its phase, for one test."""

    def __init__(self, url: str, *, timeout: float = 60.0) -> None:
        start = time.perf_counter()
        self.phase = Phase("test", start - 1_000, start + 1_000)
        self._connections = Connections(url, 4)
        requests = list(map(Reference().request, BODIES))
        self._sender = Sender(self._connections, cycle(requests), timeout)

    async def __call__(self, due: float | None = None) -> float:
        try:
            return await self._sender.send(self.phase, due or time.perf_counter())
        finally:
            await self._connections.close()


def wrong(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    """Respond with the vectors of another sentence."""
    correct(handler, body.replace(b'"1"', b'"3"').replace(b'"2"', b'"3"'))


def large(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
    respond(handler, 200, b"x" * 100_000, "application/vnd.safetensors")


@pytest.mark.parametrize(
    ("script", "counts", "fault"),
    [
        ((correct,) * 4, {"sent": 4, "answered": 4, "done": 4, "done_tokens": 8}, None),
        ((correct, correct, wrong, correct), {"wrong": 1, "done": 3}, BODIES[0].decode()),
        ((large,), {"wrong": 1, "done": 0}, BODIES[0].decode()),
        ((refuse(429, Retry_After="3"),), {"refused": {429: 1}}, None),
        ((refuse(503, Retry_After="3"),), {"refused": {503: 1}}, None),
        ((refuse(504),), {"late": 1}, None),
        ((refuse(500),), {"failed": {500: 1}}, "not now"),
        ((hang_up,), {"lost": 1}, "lost: "),
    ],
    ids=["right", "wrong", "large", "429", "503", "504", "500", "lost"],
)
async def test_each_outcome_is_counted_apart(
    scripted: ScriptedServer,
    script: tuple[Responder, ...],
    counts: dict[str, object],
    fault: str | None,
) -> None:
    scripted.script = list(script)
    send = Sends(scripted.url)
    pauses = [await send() for _ in script]

    assert {name: getattr(send.phase, name) for name in counts} == counts
    assert send.phase.is_bad == bool(fault)
    assert (fault or "") in "".join(send.phase.faults)
    refused = bool(send.phase.refused)
    assert pauses[-1] == (3.0 if refused else 0.1 if script[-1] is hang_up else 0.0)


async def test_an_address_where_nothing_listens_is_a_lost_request() -> None:
    send = Sends(f"http://127.0.0.1:{free_port()}")
    await send()

    assert send.phase.lost == 1


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

    found = send.phase
    assert (found.late, found.answered, found.done) == (late, 1 - late, done)
    assert len(found.latencies) == 1 - late and all(each >= 20 for each in found.latencies)
    assert not found.is_bad


async def test_the_warm_up_counts_wrong_and_lost_requests_alone(scripted: ScriptedServer) -> None:
    scripted.script = [correct, refuse(503), hang_up]
    send = Sends(scripted.url)
    send.phase.since = time.perf_counter() + 500
    for _ in range(3):
        await send()

    found = send.phase
    assert (found.sent, found.answered, found.done, found.refused.total()) == (0, 0, 0, 0)
    assert found.lost == 1


def vectors(*arrays: NDArray[np.floating]) -> bytes:
    """Return the body of a response with these vectors."""
    return safetensors.numpy.save({str(index): array for index, array in enumerate(arrays)})


ONE = np.ones((3, 2, 4), np.float32)
FIRST = vectors(ONE, 1_000 * ONE)
HALF = ONE.astype(np.float16)


@pytest.mark.parametrize(
    ("first", "later", "is_right"),
    [
        (FIRST, FIRST, True),
        (FIRST, vectors(ONE + 0.009, 1_000 * ONE), True),  # by the largest of the whole response
        (FIRST, vectors(ONE + 0.011, 1_000 * ONE), False),
        (FIRST, vectors(ONE), False),
        (FIRST, vectors(ONE, 1_000 * ONE[:, :1]), False),
        (FIRST, vectors(ONE, np.full_like(ONE, np.nan)), False),
        (FIRST, FIRST[:-1], False),
        (FIRST, vectors(), False),
        (vectors(HALF), vectors(HALF - np.float16(5e-4)), True),
        (vectors(HALF), vectors(HALF - np.float16(2e-3)), False),
        (vectors(0 * ONE), vectors(1e-9 * ONE), False),
    ],
)
def test_a_response_is_right_by_the_first_one_to_its_body(
    first: bytes, later: bytes, is_right: bool
) -> None:
    request = Reference().request(BODIES[0])
    assert request.difference(first) is None

    found = request.difference(later)
    assert found is not None and (found <= 1) == is_right
    assert math.isfinite(found) or not is_right


def test_tokens_are_counted_in_lists_and_in_text() -> None:
    bodies = (b'{"sentences": [["a", "b"], []]}', b'{"text": ["a b c"], "layers": "top"}')

    assert [Reference().request(body).tokens for body in bodies] == [2, 3]


@pytest.mark.parametrize("load", [("--clients", "2"), ("--rate", "100")])
def test_a_real_server_is_measured(server: Running, load: tuple[str, str]) -> None:
    for seconds in ("0.2", "2", "20"):  # a longer load where a busy machine answered nothing
        done = started("load", server.url, *load, "--seconds", seconds)
        if done.returncode == 0:
            break

    cells = done.stdout.splitlines()[-1].split("|")[1:-1]
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(cells[6]) > 0 == int(cells[11]), "answered and wrong"


@pytest.mark.parametrize("script", [(), (wrong,), (refuse(503, Retry_After="9"),) * 50])
def test_a_wrong_vector_or_no_answer_at_all_is_the_exit_code_1(
    scripted: ScriptedServer, script: tuple[Responder, ...]
) -> None:
    scripted.script = [correct] * (2 if wrong in script else 0) + list(script)
    url = scripted.url if script else f"http://127.0.0.1:{free_port()}"
    done = started("load", url, "--clients", "1", "--seconds", "1")

    assert done.returncode == 1, done.stdout
