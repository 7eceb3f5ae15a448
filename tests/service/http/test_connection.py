"""The limits of a connection, over a transport whose client reads when it is told to."""

import asyncio
import gc
import socket
import tomllib
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import uvloop
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from elmo_serve.http.connection import ConnectionLimits, Http11, log_fault
from elmo_serve.http.context import RequestContext
from elmo_serve.metrics import Metrics
from tests.support.clock import in_virtual_time
from tests.support.http_messages import GUARD_SECONDS, statuses

ROOT = Path(__file__).parents[3]
SECONDS = 30.0
READ_SECONDS = 60.0
KEEP_ALIVE = 75
PACE = 1 << 18
KERNEL = 1 << 16
MIB = 1 << 20


class Client(asyncio.Transport):
    """A transport; `unsent` are the bytes that its client, and the kernel, have not taken."""

    def __init__(self, make: partial[Http11]) -> None:
        super().__init__({"peername": ("::ffff:192.0.2.7", 1)})
        self.data = bytearray()
        self.unsent = 0
        self.is_ended = self.is_closed = self.is_aborted = self._is_paused = False
        self.protocol = make()
        self.protocol.connection_made(self)

    async def send(self, data: bytes) -> None:
        """Send some bytes, and let the server work on them as long as it can."""
        self.protocol.data_received(data)
        for _ in range(50):
            await asyncio.sleep(0)

    async def read(self, size: int | None = None) -> None:
        """Read some bytes, by default all, and let the server write more."""
        self.unsent -= self.unsent if size is None else min(size, self.unsent)
        if not self.unsent and self._is_paused:
            self._is_paused = False
            self.protocol.resume_writing()
        for _ in range(50):
            await asyncio.sleep(0)

    async def read_all(self) -> None:
        while self.unsent:
            await self.read()

    @property
    def statuses(self) -> list[int]:
        return statuses(bytes(self.data))

    def write(self, data: Any) -> None:
        self.data += data
        self.unsent += len(data)
        if self.unsent > KERNEL and not self._is_paused:
            self._is_paused = True
            self.protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.is_closed or self.is_aborted

    def write_eof(self) -> None:
        self.is_ended = True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True
        self.protocol.connection_lost(None)

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer as many bytes as the path says, after as many seconds as the query says."""
    await asyncio.sleep(float(scope["query_string"] or 0))
    left = int(scope["path"][1:])
    length = (b"content-length", b"%d" % left)
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    while left > MIB:
        await send({"type": "http.response.body", "body": bytes(MIB), "more_body": True})
        left -= MIB
    await send({"type": "http.response.body", "body": bytes(left)})


async def reading_app(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body", False):
        pass
    await app(scope, receive, send)


def connect(application: Any = app, refused: list[int] | None = None) -> Client:
    """Return a client of a server with that application."""
    served = RequestContext(application, Metrics(), ())
    config = uvicorn.Config(served, log_config=None, timeout_keep_alive=KEEP_ALIVE)
    limits = ConnectionLimits(
        10, 20, SECONDS, READ_SECONDS, (refused if refused is not None else []).append
    )
    return Client(partial(Http11, limits, config, ServerState(), {}))


def get(size: int, *fields: str, seconds: float = 0) -> bytes:
    lines = [f"GET /{size}?{seconds} HTTP/1.1", "Host: x", *fields, "", ""]
    return "\r\n".join(lines).encode()


# Reading


@in_virtual_time
@pytest.mark.parametrize("sizes", [[100], [100, 2 * MIB]])
async def test_a_client_that_reads_at_once_is_never_cut(sizes: list[int]) -> None:
    """Whatever moment is looked at, a response is just being sent; none is an earlier one."""
    client = connect()
    while asyncio.get_running_loop().time() < 2 * READ_SECONDS:
        client.data.clear()
        for size in sizes:
            await client.send(get(size))
            while client.unsent:
                await asyncio.sleep(0.4)
                await client.read()

        assert client.statuses == [200] * len(sizes) and not client.is_closing()


@in_virtual_time
@pytest.mark.parametrize("size", [100, 70_000, 8 * MIB])
@pytest.mark.parametrize("last", ["Connection: close", "Connection: keep-alive"])
async def test_a_response_has_the_time_of_a_request_and_a_second_each_256_kib(
    size: int, last: str
) -> None:
    client = connect()
    await client.send(get(size, last))
    await asyncio.sleep(READ_SECONDS + size / PACE - 1)
    assert client.unsent and not client.is_aborted

    await asyncio.sleep(2)
    assert client.is_aborted


@in_virtual_time
async def test_a_client_that_reads_slowly_has_no_longer_than_that() -> None:
    client, start = connect(), asyncio.get_running_loop().time()
    await client.send(get(4 * MIB))
    while client.unsent and not client.is_aborted:
        await asyncio.sleep(1)
        await client.read(1_000)

    assert asyncio.get_running_loop().time() - start == pytest.approx(READ_SECONDS + 16, abs=1)


@in_virtual_time
async def test_responses_one_after_another_have_the_sum_of_their_times() -> None:
    """A client that sends its requests at once reads the second response after the first."""
    client = connect()
    await client.send(get(2 * MIB) * 4)
    for _ in range(4 * 8 * 2):
        await asyncio.sleep(0.5)
        await client.read(PACE // 2)
    await client.read_all()

    assert client.statuses == [200] * 4 and not client.is_closing()


@in_virtual_time
async def test_requests_that_were_sent_at_once_and_take_long_are_answered() -> None:
    client = connect()
    await client.send(get(9, seconds=READ_SECONDS / 3) * 9)
    for _ in range(9):
        await asyncio.sleep(READ_SECONDS / 3 - 0.1)
        await client.read()
        await asyncio.sleep(0.1)

    assert client.statuses == [200] * 9 and not client.is_closing()


@in_virtual_time
async def test_a_slow_request_is_not_ended_with_the_time_of_an_earlier_response() -> None:
    client = connect()
    await client.send(get(9) + get(9, seconds=3 * READ_SECONDS))
    await client.read()
    await asyncio.sleep(3 * READ_SECONDS + 1)

    assert client.statuses == [200] * 2 and not client.is_closing()


@in_virtual_time
async def test_a_client_that_reads_nothing_gains_no_time_by_a_further_request() -> None:
    client = connect()
    await client.send(get(9))
    await asyncio.sleep(READ_SECONDS - 1)
    await client.send(get(9))
    await asyncio.sleep(2)

    assert client.is_aborted


@in_virtual_time
async def test_a_response_that_stops_in_the_middle_is_cut() -> None:
    async def stops(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        await asyncio.sleep(2 * READ_SECONDS)

    client = connect(stops)
    await client.send(get(9))
    await client.read()
    await asyncio.sleep(READ_SECONDS + 1)

    assert client.is_aborted


@in_virtual_time
async def test_the_time_of_a_large_response_does_not_go_over_to_the_next_one() -> None:
    client = connect()
    await client.send(get(64 * MIB))
    await client.read_all()
    await client.send(get(100))
    await asyncio.sleep(READ_SECONDS + 1)

    assert client.is_aborted


@in_virtual_time
async def test_100_continue_is_no_response() -> None:
    """It may be unsent when the response starts, whose time does not begin with an earlier one."""
    client = connect(reading_app)
    await client.send(get(100))
    await client.read()
    await asyncio.sleep(READ_SECONDS + 1)
    await client.send(get(100, "Expect: 100-continue", "Content-Length: 2") + b"{")
    await client.send(b"}")
    await asyncio.sleep(READ_SECONDS - 1)
    assert client.statuses == [200, 100, 200] and not client.is_aborted

    await asyncio.sleep(2)
    assert client.is_aborted


@in_virtual_time
async def test_a_refusal_by_the_parser_that_is_not_read_is_dropped() -> None:
    refused: list[int] = []
    client = connect(refused=refused)
    await client.send(b"nonsense\r\n\r\n")
    assert client.is_closed and client.statuses == refused == [400]

    await asyncio.sleep(READ_SECONDS + 1)
    assert client.is_aborted


@in_virtual_time
async def test_a_response_to_a_client_that_has_left_holds_no_connection() -> None:
    client = connect()
    protocol = weakref.ref(client.protocol)
    await client.send(get(64 * MIB, seconds=1))
    client.abort()
    await asyncio.sleep(2)
    del client
    gc.collect()

    assert protocol() is None


# Heads


@in_virtual_time
async def test_a_head_has_its_time_from_the_opening_and_from_its_first_byte() -> None:
    refused: list[int] = []
    silent, slow, later = (connect(refused=refused) for _ in range(3))
    await later.send(get(9))
    await later.read()
    for _ in range(int(SECONDS) - 1):
        await asyncio.sleep(1)
        await slow.send(b"G")
    assert not (silent.is_closed or slow.is_closed)
    await later.send(b"GET")
    await asyncio.sleep(2)

    assert silent.is_closed and not silent.data
    assert slow.is_closed and slow.statuses == [408]
    assert not later.is_closed
    await asyncio.sleep(SECONDS)
    assert later.is_closed and later.statuses == [200, 408]
    assert refused == [408, 408]


@in_virtual_time
async def test_an_idle_connection_is_kept_for_its_own_time() -> None:
    client = connect()
    await client.send(get(9))
    await client.read()
    await asyncio.sleep(KEEP_ALIVE - 1)
    assert not client.is_closed

    await asyncio.sleep(2)
    assert client.is_closed


@in_virtual_time
async def test_a_request_that_takes_long_is_no_slow_head() -> None:
    client = connect()
    await client.send(get(9, seconds=10 * SECONDS))
    await asyncio.sleep(10 * SECONDS)

    assert client.statuses == [200]


# Bodies that are not read


@in_virtual_time
@pytest.mark.parametrize(
    ("fields", "sent", "closes"),
    [
        ([], b"", False),
        (["Content-Length: 9"], b"", False),
        (["Content-Length: 9"], b"123456789", False),
        ([f"Content-Length: {MIB}"], b"1", False),
        ([f"Content-Length: {MIB + 1}"], b"1", True),
        (["Transfer-Encoding: chunked"], b"1\r\n1\r\n", True),
        (["Transfer-Encoding: chunked"], b"0\r\n\r\n", False),
        (["Content-Length: 9", "Expect: 100-continue"], b"", True),
        (["Content-Length: 9", "Expect: 100-continue"], b"123456789", False),
    ],
)
async def test_only_a_small_body_is_read_away(fields: list[str], sent: bytes, closes: bool) -> None:
    client = connect()
    await client.send(get(9, *fields) + sent)

    assert client.statuses == [200]
    assert (client.is_closed or client.is_ended) is closes
    assert (b"\r\nconnection: close\r\n" in client.data) is closes


@in_virtual_time
async def test_a_body_that_is_read_away_leaves_the_connection_as_it_was() -> None:
    client = connect()
    await client.send(get(9, "Content-Length: 20") + b"12345")
    await client.read()
    await asyncio.sleep(SECONDS - 1)
    await client.send(b"12345")
    await client.send(b"1234567890")
    await asyncio.sleep(KEEP_ALIVE - 1)
    assert not client.is_closed

    await asyncio.sleep(2)
    assert client.is_closed


@in_virtual_time
async def test_the_rest_of_an_unread_body_has_the_time_of_a_head() -> None:
    client = connect()
    await client.send(get(9, "Content-Length: 1000") + b"12345")
    await client.read()
    for _ in range(int(SECONDS)):
        assert not client.is_closed
        await client.send(b"1")
        await asyncio.sleep(1)
    await asyncio.sleep(1)

    assert client.is_closed and client.statuses == [200]


@in_virtual_time
@pytest.mark.parametrize(
    "fields",
    [
        (f"Content-Length: {2 * MIB}", "Connection: close"),
        (f"Content-Length: {2 * MIB}",),
        ("Transfer-Encoding: chunked",),
    ],
)
async def test_a_connection_is_closed_after_the_client_has_read_the_refusal(
    fields: tuple[str, ...],
) -> None:
    """Reset by bytes that nobody reads, it would lose the response, also behind nginx and Caddy."""
    client = connect()
    await client.send(get(9, *fields))
    for _ in range(int(SECONDS) - 1):
        await client.send(b"GET / HTTP/1.1\r\n")  # no request: it is in the place of the body
        await client.read()
        await asyncio.sleep(1)
    assert client.is_ended and not client.is_closed

    await asyncio.sleep(2)
    assert client.is_closed and client.statuses == [200]


@in_virtual_time
async def test_a_response_that_has_begun_is_cut_where_the_body_is_no_http() -> None:
    client = connect()
    await client.send(get(2 * MIB, "Transfer-Encoding: chunked") + b"1\r\n1\r\n")
    await client.send(b"nonsense\r\n")

    assert client.is_aborted and client.statuses == [200]


# Real sockets


@pytest.mark.parametrize("reads", [True, False])
def test_a_client_that_does_not_read_is_dropped_and_its_response_ends(reads: bool) -> None:
    ended = asyncio.Event()

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        length = (b"content-length", b"%d" % (2 * KERNEL))
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": bytes(2 * KERNEL), "more_body": True})
        await send({"type": "http.response.body"})  # waits until what was written has left
        ended.set()

    async def ask() -> int:
        with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as client:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # as few as it can
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            served = RequestContext(watched, Metrics(), ())
            seconds = GUARD_SECONDS if reads else 0.1
            limits = ConnectionLimits(10, 20, seconds, seconds, lambda status: None)
            config = uvicorn.Config(served, log_config=None)
            make = partial(Http11, limits, config, ServerState(), {})
            loop = asyncio.get_running_loop()
            server = await loop.create_server(make, sock=listening)
            client.setblocking(False)
            await loop.sock_connect(client, listening.getsockname())
            await loop.sock_sendall(client, get(9, "Connection: close"))
            size = 0
            while reads and (data := await loop.sock_recv(client, KERNEL)):
                size += len(data)
            await ended.wait()
            server.close()
            return size

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        size = runner.run(ask())
    assert size > 2 * KERNEL or not reads


# Interfaces


async def test_bytes_without_memory_are_answered_503_and_end_their_connection_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """uvicorn's parser may have lost some of them: there is no state to go on from."""

    class NoMemory(Http11):
        def handle_events(self) -> None:
            raise MemoryError

    loop, faults = asyncio.get_running_loop(), list[object]()
    loop.set_exception_handler(lambda loop, context: faults.append(context))
    limits = ConnectionLimits(10, 20, SECONDS, READ_SECONDS, lambda status: None)
    config = uvicorn.Config(app, log_config=None)
    ends = []
    for kind in (NoMemory, Http11):
        end, client = socket.socketpair()
        await loop.create_connection(partial(kind, limits, config, ServerState(), {}), sock=end)
        ends.append(await asyncio.open_connection(sock=client))
        ends[-1][1].write(get(9, "Connection: close"))

    assert [statuses(await reader.read()) for reader, _ in ends] == [[503], [200]]
    assert not faults
    assert [record.exc_info for record in caplog.records] == [None]
    for _, writer in ends:
        writer.close()
        await writer.wait_closed()


async def test_a_read_without_memory_is_one_line_and_other_faults_keep_their_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """uvloop ends a connection that it has no buffer for, and tells the loop's handler."""
    loop = asyncio.get_running_loop()
    for error in (MemoryError(), KeyError("other")):
        log_fault(loop, {"message": "Fatal error on transport", "exception": error})

    assert [(record.name, bool(record.exc_info)) for record in caplog.records] == [
        ("elmo_serve.http.connection", False),
        ("asyncio", True),
    ]


def test_the_version_of_uvicorn_has_an_upper_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (bound,) = [each for each in project["dependencies"] if each.startswith("uvicorn")]

    assert "<" in bound
