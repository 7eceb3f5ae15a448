"""Bodies are parsed and JSON is written in processes: each request gets its own, or a refusal."""

from __future__ import annotations

import asyncio
import multiprocessing.popen_spawn_posix  # noqa: F401  # not when files can no longer be opened
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest
from starlette.types import Message

from elmo_serve.errors import InvalidRequest, MalformedBody, ServiceError, Unavailable
from elmo_serve.http.body import Body, parse, parse_elsewhere
from elmo_serve.http.limits import RequestLimits
from elmo_serve.http.media_types.json_text import write
from elmo_serve.http.schemas.embed import EmbedRequest, TokenizeRequest
from elmo_serve.http.schemas.openai import EmbeddingsRequest
from elmo_serve.metrics import Metrics
from elmo_serve.processes.arena import Arena, Vectors, view
from elmo_serve.processes.helpers import HelperPool
from elmo_serve.processes.slot import REAP_SECONDS
from elmo_serve.scheduling.budgets import Budget
from tests.support.clock import FakeClock
from tests.support.http_messages import http_scope
from tests.support.processes import children

LIMITS = RequestLimits(10_000, 1_000)
HANG_SECONDS = 30.0
WIDTH = 5_000
"""Numbers of a vector: more than the server writes itself."""


@dataclass
class Bench:
    """A pool of real processes, whose timeouts and restarts follow a fake clock."""

    pool: HelperPool
    arena: Arena
    metrics: Metrics
    clock: FakeClock

    def vectors(self, rows: int, number: float = 0.0) -> Vectors:
        block = self.arena.acquire(4 * rows * WIDTH)
        view(block.array, 0, (rows, WIDTH), "float32")[...] = number
        return Vectors(block, 0, (rows, WIDTH), "float32")

    async def written(self, *vectors: Vectors) -> list[object]:
        pieces = await write(self.pool, "", vectors)
        return list(orjson.loads(b"[" + b"".join(pieces) + b"]"))

    def count(self, how: str) -> float:
        labels = {"reason": f"helper_{how}"}
        return self.metrics.registry.get_sample_value("elmo_failures_total", labels) or 0.0


def pids() -> list[int]:
    return children(os.getpid())["helper"]


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    arena, metrics, clock = Arena(), Metrics(), FakeClock()
    pool = HelperPool(arena, metrics, 2, clock)
    pool.start()
    await until(lambda: all(slot.is_ready for slot in pool._slots))
    try:
        yield Bench(pool, arena, metrics, clock)
    finally:
        await pool.stop()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for an event; the bound is for an event that never comes."""
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "this never came"
        await asyncio.sleep(0.01)


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def _body(members: dict[str, Any]) -> Body:
    return await _received(orjson.dumps(members))


async def _received(content: bytes) -> Body:
    async def whole() -> Message:
        return {"type": "http.request", "body": content}

    body = Body(http_scope(), Budget(1 << 30, "bytes of request bodies", ""), 1 << 30)
    await body.receive(whole)
    return body


async def test_a_body_whose_process_hangs_is_refused_and_may_be_sent_again() -> None:
    """The other process goes on writing JSON meanwhile."""
    async with bench() as b:
        struck = await b.pool.run(os.getpid, client="", is_slow=True)
        sentences = [[f"w{number}"] * 3 for number in range(4_000)]
        body, again = [await _body({"sentences": sentences}) for _ in range(2)]
        os.kill(struck, signal.SIGSTOP)
        parsing = asyncio.ensure_future(parse_elsewhere(b.pool, "", EmbedRequest, body, LIMITS))
        await turns()
        assert await b.written(b.vectors(2, 0.5)) == [[[0.5] * WIDTH] * 2]
        b.clock.advance(HANG_SECONDS)
        with pytest.raises(Unavailable):
            await parsing
        assert (b.count("lost"), b.count("hung")) == (0, 1)
        b.clock.advance(REAP_SECONDS)
        parsed = await parse_elsewhere(b.pool, "", EmbedRequest, again, LIMITS)

        assert [orjson.loads(sentence) for sentence in parsed.tokens.sentences] == sentences


async def test_texts_come_whole_and_a_fault_names_its_place() -> None:
    texts = [f"text {number}" for number in range(2_500)]
    async with bench() as b:
        embed = await parse_elsewhere(
            b.pool, "", EmbedRequest, await _body({"text": texts}), LIMITS
        )
        tokenized = await parse_elsewhere(
            b.pool, "", TokenizeRequest, await _body({"text": texts}), LIMITS
        )
        openai = await _body({"model": "m", "input": texts})
        asked = await parse_elsewhere(b.pool, "", EmbeddingsRequest, openai, LIMITS)
        with pytest.raises(InvalidRequest) as refusal:
            wrong = await _body({"sentences": [["a", 1]]})
            await parse_elsewhere(b.pool, "", EmbedRequest, wrong, LIMITS)

    assert embed.texts == tokenized.texts == asked.texts == texts
    assert refusal.value.errors[0].pointer == "/sentences/0/1"


@pytest.mark.parametrize("as_objects", [False, True])
async def test_a_short_answer_is_the_same_without_a_process(as_objects: bool) -> None:
    """A long sentence behind two short ones makes processes write all three."""
    async with bench() as b:
        long = b.vectors(1, 0.1)
        short = [b.vectors(0), replace(long, shape=(2, 3))]
        here = b"".join(await write(b.pool, "", short, as_objects=as_objects))
        there = b"".join(await write(b.pool, "", [*short, long], as_objects=as_objects))

    assert there.startswith(here + b",")


async def test_equal_sentences_are_written_once_and_their_bytes_used_again() -> None:
    async with bench() as b:
        one, two, short = b.vectors(2, 1.0), b.vectors(1, 2.0), b.vectors(0)
        for vectors in ([one, two, one, short, one], [short, short], [one] * 300):
            pieces = await write(b.pool, "", vectors)
            texts = pieces[::2]
            expected = [orjson.dumps(each.numpy().tolist()) for each in vectors]

            assert [orjson.loads(bytes(text)) for text in texts] == list(
                map(orjson.loads, expected)
            )
            assert set(map(bytes, pieces[1::2])) <= {b","}
            assert len(set(map(id, texts))) == len(set(map(id, vectors)))
        objects = await write(b.pool, "", [one, one], as_objects=True)

    found = orjson.loads(b"[" + b"".join(objects) + b"]")
    assert [each["index"] for each in found] == [0, 1]


NAMES = b",".join(b'"%x":0' % number for number in range(20_000))
COSTLY: list[tuple[bytes, type[ServiceError]]] = [
    (b'{"model":null,"x":' + b"[" * 300 + b"]" * 300 + b"}", MalformedBody),
    (b'{"model":null,"x":' + b'{"a":' * 300 + b"0" + b"}" * 301, InvalidRequest),
    (b"{" + NAMES + b"}", InvalidRequest),
    (b'{"sentences":[["a"]],"mix":{' + NAMES + b"}}", InvalidRequest),
    (b'{"sentences":[["a"]],"pooling":NaN,' + NAMES + b"}", MalformedBody),
]


async def test_no_body_costs_a_process() -> None:
    async with bench() as b:
        before = pids()
        for content, error in COSTLY:
            with pytest.raises(error) as there:
                async with asyncio.timeout(120):  # for a process that is lost and not replaced
                    await parse_elsewhere(
                        b.pool, "", EmbedRequest, await _received(content), LIMITS
                    )
            with pytest.raises(error) as here:
                parse(EmbedRequest, content, LIMITS)

            assert there.value.detail == here.value.detail
            assert pids() == before, content[:40]
