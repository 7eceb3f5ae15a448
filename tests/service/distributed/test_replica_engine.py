"""The engine of one replica: its vectors, its errors as values, a model that is missing."""

import asyncio

import orjson
import pytest

from elmo_serve.distributed.messages import (
    EmbedAnswer,
    EmbedCall,
    LoadFault,
    ModelDescription,
)
from elmo_serve.distributed.replica_engine import ReplicaEngine, Share
from elmo_serve.errors import Overloaded, SentenceFailed, ServiceError, TooLarge, Unavailable
from elmo_serve.model_specs import ModelSpec
from elmo_serve.settings import Settings
from elmo_serve.workers.devices import Hardware
from tests.support.engines import TOP, made_of, until
from tests.support.gated_worker import INFO, NAN, GatedWorker, mark

SHARE = Share(Hardware(0), 1)
SPEC = ModelSpec("m", "unused")


async def opened(**settings: object) -> tuple[ReplicaEngine, GatedWorker]:
    worker = GatedWorker()
    found = Settings.model_validate({"devices": "cpu", **settings})
    engine = await ReplicaEngine.open(SPEC, found, SHARE, lambda *_: worker)
    assert isinstance(engine, ReplicaEngine)
    return engine, worker


def call_of(sentences: list[list[str]], timeout: float = 60.0) -> EmbedCall:
    texts = [orjson.dumps(sentence) for sentence in sentences]
    return EmbedCall("m", texts, [len(each) for each in sentences], TOP, timeout, False)


async def test_each_sentence_gets_its_own_vectors() -> None:
    engine, _ = await opened()
    sentences = made_of("replica", 5)

    answer = await engine.embed(call_of(sentences))

    assert isinstance(answer, EmbedAnswer)
    assert [array.shape for array in answer.arrays] == [(len(each), 4) for each in sentences]
    texts = [orjson.dumps(sentence) for sentence in sentences]
    assert all(
        (array == mark(text)).all() for array, text in zip(answer.arrays, texts, strict=True)
    )
    description = engine.describe()
    assert isinstance(description, ModelDescription)
    assert description.info == INFO
    await engine.stop()


async def test_errors_are_values() -> None:
    engine, _ = await opened(max_queue_tokens=20, max_sentence_tokens=18)
    found: list[EmbedAnswer | ServiceError] = [
        await engine.embed(call_of([["too"] * 30])),
        await engine.embed(call_of([[NAN]])),
    ]

    assert [type(each) for each in found] == [TooLarge, SentenceFailed]
    assert engine.outstanding_tokens == 0
    await engine.stop()


async def test_a_full_queue_refuses_and_the_outstanding_tokens_show_it() -> None:
    engine, worker = await opened(max_queue_tokens=20, max_sentence_tokens=18)
    worker.close()
    first = asyncio.ensure_future(engine.embed(call_of([["a"] * 15])))
    await until(lambda: bool(worker.batches))

    assert engine.outstanding_tokens == 17
    assert isinstance(await engine.embed(call_of([["b"] * 15])), Overloaded)
    worker.open()
    assert isinstance(await first, EmbedAnswer)
    await engine.stop()
    assert isinstance(await engine.embed(call_of([["c"]])), Unavailable)


async def test_a_load_that_is_cancelled_ends_its_workers() -> None:
    worker = GatedWorker(loads=False)
    started = asyncio.Event()

    def make(*_: object) -> GatedWorker:
        started.set()
        return worker

    opening = asyncio.ensure_future(
        ReplicaEngine.open(SPEC, Settings(devices=("cpu",)), SHARE, make)
    )
    await started.wait()
    opening.cancel()

    with pytest.raises(asyncio.CancelledError):
        await opening
    assert worker.is_dead


async def test_a_model_that_does_not_exist_is_a_fault() -> None:
    spec = ModelSpec("missing", "no/such/checkpoint")

    found = await ReplicaEngine.open(spec, Settings(devices=("cpu",), worker="thread"), SHARE)

    assert isinstance(found, LoadFault)
    assert "no/such/checkpoint" in found.reason
