"""The engine of an HTTP side: replicas that are lost, refuse, or are silent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from elmo_serve.distributed.messages import EmbedAnswer, EmbedCall
from elmo_serve.distributed.remote_engine import RemoteEngine
from elmo_serve.distributed.remote_workers import RemoteWorkers
from elmo_serve.errors import (
    ClientOverShare,
    DeadlineExceeded,
    Overloaded,
    SentenceFailed,
    Unavailable,
)
from elmo_serve.metrics import Metrics
from elmo_serve.output import Output
from elmo_serve.scheduling.admission import Limits
from elmo_serve.scheduling.engine import Embedded
from elmo_serve.workers.shared_memory import SharedMemoryPool
from tests.support.engines import ALL, MIX, TOP, check, made_of, until
from tests.support.scripted_replicas import (
    DESCRIPTION,
    Answer,
    ScriptedReplicas,
    failing,
    lost,
    right,
    silent,
)

SENTENCES = made_of("remote", 5)


def ask(
    engine: RemoteEngine, output: Output = TOP, timeout: float = 60.0, client: str = ""
) -> asyncio.Task[Embedded]:
    texts = [orjson.dumps(sentence) for sentence in SENTENCES]
    lengths = [len(sentence) for sentence in SENTENCES]
    return asyncio.ensure_future(engine.embed(texts, lengths, output, timeout, client))


@asynccontextmanager
async def started(
    replicas: ScriptedReplicas, limits: Limits | None = None, ping_seconds: float = 1e9
) -> AsyncIterator[RemoteEngine]:
    """Start an engine; at the end it must hold nothing of any request."""
    workers = RemoteWorkers("m", replicas, ping_seconds=ping_seconds, answer_seconds=0.01)
    limits = limits or Limits(10_000, 1 << 30)
    engine = RemoteEngine({"m": workers}, replicas, SharedMemoryPool(), limits, Metrics())
    engine.start()
    assert await workers.first_outcome() is None
    yield engine
    admission = engine.admission
    assert (admission.requests, admission.outstanding, admission.clients) == (0, 0, 0)
    await engine.stop()


@pytest.mark.parametrize("output", [TOP, ALL, MIX])
async def test_vectors_come_back_in_the_order_of_the_request(output: Output) -> None:
    async with started(ScriptedReplicas([right])) as engine:
        embedded = await ask(engine, output)

    check(embedded, SENTENCES, output)
    assert (embedded.queue_seconds, embedded.infer_seconds) == (0.5, 0.25)


@pytest.mark.parametrize("losses", [1, 2])
async def test_another_replica_gets_the_request_of_a_lost_one(losses: int) -> None:
    replicas = ScriptedReplicas([*[lost] * losses, right])
    async with started(replicas) as engine:
        check(await ask(engine), SENTENCES)

    assert len(replicas.calls) == losses + 1
    assert replicas.calls[-1].timeout_seconds <= replicas.calls[0].timeout_seconds <= 60.0


async def test_a_request_that_loses_three_replicas_is_refused() -> None:
    replicas = ScriptedReplicas([lost])
    async with started(replicas) as engine:
        with pytest.raises(Unavailable, match="3 replicas were lost"):
            await ask(engine)

    assert len(replicas.calls) == 3


async def test_a_request_waits_no_longer_for_a_second_replica_when_there_is_none() -> None:
    never = asyncio.Event()
    replicas = ScriptedReplicas([lost, silent], [DESCRIPTION, never])
    async with started(replicas, ping_seconds=0.0) as engine:
        with pytest.raises(Unavailable, match="no replica has answered"):
            await ask(engine)
        with pytest.raises(Unavailable, match="Not ready: no replica has answered"):
            await ask(engine)

    assert replicas.cancelled == 1


@pytest.mark.parametrize(
    "error",
    [
        Overloaded("The queue is full.", retry_after=7),
        SentenceFailed("The model failed."),
        DeadlineExceeded("Not answered in time."),
    ],
)
async def test_the_error_of_a_replica_is_the_error_of_the_request(error: Exception) -> None:
    assert isinstance(error, Overloaded | SentenceFailed | DeadlineExceeded)
    replicas = ScriptedReplicas([failing(error)])
    async with started(replicas) as engine:
        with pytest.raises(type(error)) as found:
            await ask(engine)

    assert found.value is error
    assert len(replicas.calls) == 1


async def test_a_client_that_leaves_takes_the_work_of_its_replica_along() -> None:
    replicas = ScriptedReplicas([silent])
    async with started(replicas) as engine:
        request = ask(engine)
        await until(lambda: bool(replicas.calls))
        request.cancel()
        await asyncio.wait([request])

    assert replicas.cancelled == 1


@pytest.mark.parametrize("answer", [silent, lost])
async def test_no_replica_is_asked_once_the_time_is_over(answer: Answer) -> None:
    replicas = ScriptedReplicas([answer])
    async with started(replicas) as engine:
        with pytest.raises(DeadlineExceeded):
            await ask(engine, timeout=0.0)

    assert not replicas.calls


async def test_tokens_of_a_client_are_counted_here() -> None:
    replicas = ScriptedReplicas([silent])
    async with started(replicas, Limits(10_000, 1 << 30, client_tokens=30)) as engine:
        first = ask(engine, client="a")
        await until(lambda: bool(replicas.calls))
        with pytest.raises(ClientOverShare):
            await ask(engine, client="a")
        second = ask(engine, client="b")
        await until(lambda: len(replicas.calls) == 2)
        for request in (first, second):
            request.cancel()
        await asyncio.wait([first, second])


async def test_a_drain_waits_for_what_was_admitted() -> None:
    gate = asyncio.Event()

    async def gated(call: EmbedCall) -> EmbedAnswer:
        await gate.wait()
        return await right(call)

    replicas = ScriptedReplicas([gated])
    async with started(replicas) as engine:
        request = ask(engine)
        await until(lambda: bool(replicas.calls))
        drain = asyncio.ensure_future(engine.drain(60))
        await until(lambda: engine.why_not() is not None)
        with pytest.raises(Unavailable, match="draining"):
            await ask(engine)
        gate.set()

        assert await drain
        check(await request, SENTENCES)
