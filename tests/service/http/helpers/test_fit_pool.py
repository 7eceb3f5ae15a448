"""Bodies of fits parsed in a process of their own: plans come whole, refusals as they are."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.types import Message

from elmo_serve.errors import InvalidRequest, MalformedBody
from elmo_serve.http.calls.body import Body
from elmo_serve.http.helpers.fit_pool import FitParser
from elmo_serve.jobs.bodies import read_fit
from elmo_serve.jobs.plan import FitLimits, FitRequest, FitSource
from elmo_serve.metrics import Metrics
from elmo_serve.scheduling.quotas import Budget
from elmo_serve.workers.shared_memory import SharedMemoryPool
from tests.support.fits import body

SOURCE = FitSource(False, FitLimits(10_000, 100_000, 100), "whitespace", "en")


@asynccontextmanager
async def parser() -> AsyncIterator[FitParser]:
    made = FitParser(SharedMemoryPool(), Metrics())
    yield made
    await made.stop()


async def received(content: bytes) -> Body:
    async def receive() -> Message:
        return {"type": "http.request", "body": content}

    body = Body({"headers": []}, Budget(1 << 30))
    await body.receive(receive)
    return body


async def test_a_plan_of_many_messages_is_that_of_the_body() -> None:
    """More sentences than one message holds, in their order."""
    sent = json.dumps(body("token", 2_500)).encode()

    async with parser() as found:
        plan = await found.parse(await received(sent), SOURCE)

    assert plan == read_fit(sent, SOURCE).plan()
    assert len(plan.sentences) == 2_500
    assert FitRequest.unpacked(plan.request) == read_fit(sent, SOURCE)


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
