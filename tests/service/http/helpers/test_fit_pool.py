"""Bodies of fits parsed in a process of their own: plans come whole, refusals as they are."""

import json
import os
import signal
import time
from asyncio import ensure_future, sleep
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from starlette.types import Message

from elmo_serve.errors import InvalidRequest, MalformedBody
from elmo_serve.http.calls.body import Body
from elmo_serve.http.helpers.fit_pool import FIT, FitParser
from elmo_serve.jobs.bodies import read_fit
from elmo_serve.jobs.plan import FitLimits, FitRequest, FitSource
from elmo_serve.metrics import Metrics
from elmo_serve.scheduling.byte_budget import ByteBudget
from elmo_serve.workers.shared_memory import SharedMemoryPool
from elmo_serve.workers.watchdog import EVENT_LOOP_CLOCK, Clock
from tests.support.asgi import http_scope
from tests.support.clock import FakeClock
from tests.support.engines import until
from tests.support.fits import body
from tests.support.processes import children

SOURCE = FitSource(False, FitLimits(10_000, 100_000, 100), "whitespace", "en")


@asynccontextmanager
async def parser(
    metrics: Metrics | None = None, clock: Clock = EVENT_LOOP_CLOCK
) -> AsyncIterator[FitParser]:
    made = FitParser(FIT, SharedMemoryPool(), metrics or Metrics(), clock)
    yield made
    await made.stop()


async def received(content: bytes) -> Body:
    async def receive() -> Message:
        return {"type": "http.request", "body": content}

    body = Body(http_scope(), ByteBudget(1 << 30, "request bodies", "", time.monotonic))
    await body.receive(receive)
    return body


def libraries_of(pid: int) -> str:
    """Return the list of the files that a process has mapped."""
    return Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")


async def test_a_plan_of_many_messages_is_that_of_the_body() -> None:
    """More sentences than one message holds, in their order."""
    sent = json.dumps(body("token", 2_500)).encode()

    async with parser() as found:
        plan = await found.parse(await received(sent), SOURCE)

    assert plan == read_fit(sent, SOURCE).plan()
    assert len(plan.sentences) == 2_500
    assert FitRequest.unpacked(plan.request) == read_fit(sent, SOURCE)


async def test_the_libraries_of_the_tokenizers_belong_to_the_start_of_the_process() -> None:
    """Their import takes longer on a busy machine than a small body has."""
    sent = json.dumps(body("token", 20)).encode()

    async with parser() as found:
        await found.parse(await received(sent), SOURCE)
        (pid,) = children(os.getpid())["json"]
        libraries = libraries_of(pid)

    assert "/_regex" in libraries
    assert "/scipy/" not in libraries


async def test_a_refusal_reaches_the_caller_and_the_next_body_is_parsed() -> None:
    sent = json.dumps(body("sentence", 20)).encode()

    async with parser() as found:
        with pytest.raises(MalformedBody):
            await found.parse(await received(b""), SOURCE)
        with pytest.raises(InvalidRequest) as refusal:
            wrong = b'{"kind": "token", "examples": [{"tokens": ["a"]}]}'
            await found.parse(await received(wrong), SOURCE)
        assert refusal.value.errors[0].pointer.startswith("/examples/0")
        assert await found.parse(await received(sent), SOURCE) == read_fit(sent, SOURCE).plan()


async def test_a_stopped_process_holds_a_small_body_for_seconds_and_a_large_one_has_minutes() -> (
    None
):
    """Moses needs 84 s for 8 MiB of text."""
    sent = json.dumps(body("sentence", 20)).encode()
    metrics, clock = Metrics(), FakeClock()
    others = set(children(os.getpid())["json"])
    async with parser(metrics, clock) as found:
        plan = await found.parse(await received(sent), SOURCE)
        (pid,) = set(children(os.getpid())["json"]) - others
        os.kill(pid, signal.SIGSTOP)

        parsing = ensure_future(found.parse(await received(sent), SOURCE))
        await sleep(0)
        assert clock.delays[-1] <= 10
        clock.advance(clock.delays[-1])
        hung = ("elmo_failures_total", {"reason": "body_hung"})
        await until(lambda: bool(metrics.registry.get_sample_value(*hung)))
        clock.advance(1)
        assert await parsing == plan

        large = found.run(len, b"", size=8 << 20)
        assert clock.delays[-1] >= 5 * 84
        assert await large == 0
