"""Load shedding: a full queue refuses requests from their headers, and keeps the connection."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Any

import httpx
import pytest
from starlette.types import Scope

from elmo_serve.errors import Overloaded
from elmo_serve.http.middleware.request_checks import LoadShedder
from tests.support.asgi import http_scope
from tests.support.engines import until
from tests.support.gated_server import close_gate, gated, open_gate
from tests.support.in_process import InProcess, in_process
from tests.support.raw_http import HEAD, JSON, connected
from tests.support.servers import Running

LIMIT = 10_000
TOKENS = 4_500
LARGE = json.dumps(
    {"sentences": [[f"{n:04}"] * 7 for n in range(TOKENS // 9)], "layers": "top"}
).encode()
GOOD = b'{"sentences": [["a"]], "layers": "top", "pooling": "mean"}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with gated(
        tmp_path_factory.mktemp("shedding"),
        max_queue_tokens=LIMIT,
        max_client_tokens=LIMIT,
        request_timeout_seconds=600,
    ) as server:
        httpx.post(
            server.url + "/embed", content=LARGE, headers=JSON, timeout=60
        ).raise_for_status()
        yield server


@contextmanager
def full(server: Running) -> Iterator[None]:
    """Hold three quarters of the queue's tokens behind a closed gate."""
    bulk = {"sentences": [[f"{i}-{j}" for j in range(13)] for i in range(500)], "layers": "top"}
    close_gate(server)
    held = threading.Thread(
        target=lambda: httpx.post(server.url + "/embed", json=bulk, timeout=600).raise_for_status()
    )
    held.start()
    try:
        server.until(lambda: server.metric("elmo_queue_tokens") > 0.5 * LIMIT)
        yield
    finally:
        open_gate(server)
        held.join()


def head(length: int, *fields: str) -> bytes:
    return HEAD + "\r\n".join([f"Content-Length: {length}", *fields, "", ""]).encode()


def answer(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Read one answer, and nothing of the next."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        some = connection.recv(1)
        assert some, data
        data += some
    lines = data.decode().split("\r\n")
    fields = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines[1:] if line)}
    body = b""
    while len(body) < int(fields["content-length"]):
        body += connection.recv(int(fields["content-length"]) - len(body))
    return int(lines[0].split()[1]), fields, body


def test_a_request_without_room_is_refused_before_its_body_comes(server: Running) -> None:
    with full(server), connected(server) as connection:
        connection.sendall(head(len(LARGE), "X-Request-Id: unread-1"))
        status, fields, body = answer(connection)

    problem = json.loads(body)
    assert status == problem["status"] == 503
    assert problem["type"].endswith(":overloaded")
    assert fields["x-request-id"] == problem["instance"] == "unread-1"
    assert int(fields["retry-after"]) >= 1
    assert fields["content-type"] == "application/problem+json"
    assert "date" in fields and "connection" not in fields


def test_requests_on_one_connection_are_answered_in_their_order(server: Running) -> None:
    """Also behind bodies that were not read, and once there is room again."""
    large, bad = head(len(LARGE)) + LARGE, head(5) + b"[1, 2"
    with full(server), connected(server) as connection:
        sending = threading.Thread(target=connection.sendall, args=(large + bad + large + bad,))
        sending.start()
        statuses = [answer(connection)[0] for _ in range(4)]
        sending.join()
        open_gate(server)
        connection.sendall(head(len(GOOD)) + GOOD)
        statuses.append(answer(connection)[0])

    assert statuses == [503, 400, 503, 400, 200]


@asynccontextmanager
async def full_here(*seen: bytes) -> AsyncIterator[InProcess]:
    """Fill the queue of a server in this process that has seen these bodies."""
    bulk = {"sentences": [[f"{i}-{j}" for j in range(13)] for i in range(500)], "layers": "top"}
    async with in_process(max_queue_tokens=LIMIT, request_timeout_seconds=600) as serving:
        for content in seen:
            (await serving.client.post("/embed", content=content, headers=JSON)).raise_for_status()
        serving.worker.close()
        held = asyncio.ensure_future(serving.client.post("/embed", json=bulk))
        await until(lambda: serving.server.engine.admission.outstanding > 0.5 * LIMIT)
        yield serving
        serving.worker.open()
        assert (await held).status_code == 200


async def test_other_errors_are_named_also_while_the_queue_is_full() -> None:
    """One that never has room is not told to come again."""
    many = [[f"{i}-{j}" for j in range(18)] for i in range(510)]
    endless = json.dumps({"sentences": many, "layers": "top"}).encode()
    async with full_here(LARGE) as serving:
        post = serving.client.post
        statuses = [
            (await post("/embed", content=LARGE, headers=JSON | headers)).status_code
            for headers in ({}, {"X-Request-Timeout": "soon"}, {"Content-Type": "text/xml"})
        ]
        refused = await post("/embed", content=endless, headers=JSON)

    assert statuses == [503, 422, 415]
    assert refused.status_code == 413
    assert "ELMO_MAX_QUEUE_TOKENS" in refused.json()["detail"]


async def test_the_estimate_is_the_sparsest_recent_body_of_a_size() -> None:
    few = json.dumps({"sentences": [["a" * len(LARGE)]], "layers": "top"}).encode()
    assert len(few).bit_length() == len(LARGE).bit_length()
    scope = http_scope(content_length=str(len(LARGE)))
    async with full_here(LARGE) as serving:
        with pytest.raises(Overloaded):
            serving.server.load_shedder.check(scope)
    async with full_here(LARGE, few) as serving:
        serving.server.load_shedder.check(scope)  # it may be as sparse, and is read


@pytest.mark.parametrize(
    "scope",
    [
        http_scope("/tokenize", "POST", content_length=str(len(LARGE))),
        http_scope("/embed", "GET", content_length=str(len(LARGE))),
        http_scope(),
        http_scope(content_length="0"),
        http_scope(content_length="9" * 30),
    ],
)
async def test_any_other_request_passes(scope: Scope) -> None:
    async with full_here(LARGE) as serving:
        serving.server.load_shedder.check(scope)


class TwoModels:
    """An engine of the models a and b; `full` have no room, and those not `ready` are loading."""

    models = "ab"
    outstanding = 1

    def __init__(self, full: str, ready: str) -> None:
        self.full, self.ready, self.admission = full, ready, self

    def unavailable_reason(self, model: str) -> str | None:
        return None if model in self.ready else "it is loading"

    def refusal(self, cost: int, timeout: float, model: str) -> Overloaded | None:
        return Overloaded("The queue is full.", retry_after=1) if model in self.full else None


@pytest.mark.parametrize(
    ("full", "ready", "size", "is_refused"),
    [
        ("ab", "ab", 1_000, True),
        ("a", "ab", 1_000, False),
        ("b", "ab", 1_000, False),
        ("a", "a", 1_000, True),
        ("ab", "", 1_000, False),  # the route says that none is ready
        ("ab", "ab", 1_001, False),  # the route says that the body is too large
    ],
)
def test_a_request_is_refused_where_no_model_has_room(
    full: str, ready: str, size: int, is_refused: bool
) -> None:
    engine: Any = TwoModels(full, ready)
    shedder = LoadShedder(engine, timeout_seconds=60, body_bytes=1_000)
    shedder.learn(1_000, 500)

    with pytest.raises(Overloaded) if is_refused else nullcontext():
        shedder.check(http_scope(content_length=str(size)))
