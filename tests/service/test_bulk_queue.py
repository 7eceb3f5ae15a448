"""Bulk work: pieces that are queued again until they are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest

from elmo_serve.bulk_queue import (
    BulkQueue,
    WorkFailedError,
    bulk_queue,
    piece_tokens_of,
)
from elmo_serve.errors import SentenceFailed
from elmo_serve.scheduling.engine import Embedded
from elmo_serve.settings import Settings
from elmo_serve.workers.messages import Message
from tests.support.engines import ALL, MODEL, Bench, bench, check, same_length, turns, until
from tests.support.gated_worker import DIES, INFO, RAISES, GatedWorker
from tests.support.virtual_time import in_virtual_time

OnMessage = Callable[[Message], None]
OnExit = Callable[[str], None]


async def at_once(write: Callable[..., None], *arguments: Any) -> None:
    """Write without a thread: virtual time would not wait for it."""
    write(*arguments)


async def answer(queue: BulkQueue, sentences: list[list[str]]) -> None:
    """Compute a piece, and check that it is answered once and held while it is written."""
    written: list[Sequence[int]] = []
    done: list[int] = []

    def write(numbers: Sequence[int], embedded: Embedded) -> None:
        check(embedded, [sentences[number] for number in numbers], ALL)
        size = sum(ALL.size(len(sentence), INFO.dimension) for sentence in sentences)
        assert queue.engine.answers.used == size
        written.append(numbers)

    await replace(queue, in_thread=at_once).run(sentences, ALL, write, done.append)
    assert [sorted(numbers) for numbers in written] == [[*range(len(sentences))]]
    assert done == [sum(map(len, sentences))]
    assert not queue.engine.answers.used


@in_virtual_time
async def test_a_piece_is_answered_and_its_bytes_are_held() -> None:
    async with bench() as b:
        await answer(bulk_queue(b.engine, MODEL, Settings(), "work"), same_length("a", 5))


@in_virtual_time
async def test_a_piece_waits_for_room_in_the_queue() -> None:
    async with bench(lambda: GatedWorker(is_open=False), queue_tokens=40) as b:
        crowd = b.ask(same_length("crowd", 4))
        await until(lambda: len(b.workers[0].batches) == 1)
        work = asyncio.ensure_future(
            answer(BulkQueue(b.engine, MODEL, INFO, "work", 40, 60.0), same_length("a", 3))
        )
        await asyncio.sleep(10)
        assert not work.done()
        b.workers[0].open()
        await asyncio.gather(crowd, work)


@pytest.mark.parametrize(
    ("word", "error"), [(RAISES, SentenceFailed), (DIES, WorkFailedError)], ids=["raises", "dies"]
)
@in_virtual_time
async def test_a_piece_that_is_never_answered_fails(word: str, error: type[Exception]) -> None:
    async with bench() as b:
        queue = BulkQueue(b.engine, MODEL, INFO, "work", 40, 60.0)
        with pytest.raises(error) as failed:
            await answer(queue, [["a"], [word]])
        assert getattr(failed.value, "index", 1) == 1


@in_virtual_time
async def test_a_piece_has_its_time_again_in_each_attempt() -> None:
    async with bench(lambda: GatedWorker(is_open=False)) as b:
        start = asyncio.get_running_loop().time()
        with pytest.raises(WorkFailedError, match="within 2 s"):
            await answer(BulkQueue(b.engine, MODEL, INFO, "work", 40, 2.0), same_length("a", 1))
        assert asyncio.get_running_loop().time() - start == pytest.approx(10.0)
        b.workers[0].open()


@in_virtual_time
async def test_a_piece_waits_while_memory_is_short() -> None:
    """A refusal says after which time it is worth to ask again."""
    async with bench(lambda: GatedWorker(memory_tokens=1)) as b:
        work = asyncio.ensure_future(
            answer(BulkQueue(b.engine, MODEL, INFO, "work", 40, 60.0), same_length("a", 1))
        )
        await asyncio.sleep(8)
        assert not work.done()
        b.workers[0].memory_tokens = 100
        await work


def queue_without_worker(b: Bench) -> BulkQueue:
    """Return the queue of a model whose worker was lost, and whose next one never loads."""
    b.workers[0].die("was killed")
    return BulkQueue(b.engine, MODEL, INFO, "work", 40, 60.0)


@in_virtual_time
async def test_a_piece_waits_some_minutes_for_a_worker() -> None:
    """The bulk work of all models waits as long: one runs at a time."""
    makes = iter((GatedWorker(), GatedWorker(loads=False), GatedWorker(loads=False)))
    async with bench(lambda: next(makes)) as b:
        work = asyncio.ensure_future(answer(queue_without_worker(b), same_length("a", 1)))
        await asyncio.sleep(590)
        assert not work.done()
        await asyncio.sleep(20)
        with pytest.raises(WorkFailedError, match=r"no vectors came: cpu: .* for 600 s"):
            await asyncio.wait_for(work, 60)


@in_virtual_time
async def test_a_piece_does_not_wait_for_a_model_that_cannot_recover() -> None:
    class Lost(GatedWorker):
        def start(self, on_message: OnMessage, on_exit: OnExit) -> None:
            super().start(on_message, on_exit)
            self.die("exited with status 1")

    makes = iter((GatedWorker(), *(Lost(loads=False) for _ in range(99))))
    async with bench(lambda: next(makes)) as b:
        work = asyncio.ensure_future(answer(queue_without_worker(b), same_length("a", 1)))
        await asyncio.sleep(120)
        assert not b.pool.can_recover
        assert work.done()
        with pytest.raises(WorkFailedError, match=r"no vectors came: cpu: .*exited with status 1"):
            await asyncio.wait_for(work, 60)


@in_virtual_time
async def test_a_piece_beyond_the_queue_fails_at_once() -> None:
    async with bench(queue_tokens=10) as b:
        queue = BulkQueue(b.engine, MODEL, INFO, "work", 40, 60.0)
        with pytest.raises(WorkFailedError, match="ELMO_MAX_QUEUE_TOKENS"):
            await answer(queue, same_length("a", 3))


def test_a_piece_leaves_room_for_others() -> None:
    usual = Settings(max_sentence_tokens=10)

    assert piece_tokens_of(usual, INFO, 1_024) == 1_024
    assert piece_tokens_of(usual.model_copy(update={"max_queue_tokens": 400}), INFO, 1_024) == 100
    assert piece_tokens_of(usual.model_copy(update={"max_client_tokens": 50}), INFO, 1_024) == 50
    # 3 layers of 4 numbers of 4 bytes a token; an eighth of the budget of answers
    bytes_of_ten = usual.model_copy(update={"max_answer_bytes": 8 * 48 * 10})
    assert piece_tokens_of(bytes_of_ten, INFO, 1_024) == 10


def work_of(b: Bench, done: Callable[[int], None]) -> asyncio.Future[None]:
    """Start bulk work of ten pieces of 48 tokens that are dropped."""
    queue = BulkQueue(b.engine, MODEL, INFO, "work", 48, 60.0, at_once)
    return asyncio.ensure_future(queue.run(same_length("bulk", 60), ALL, lambda *_: None, done))


@in_virtual_time
async def test_a_small_request_passes_the_pieces() -> None:
    done: list[int] = []
    async with bench(lambda: GatedWorker(is_open=False)) as b:
        worker = b.workers[0]
        work = work_of(b, done.append)
        await until(lambda: len(worker.batches) == 1)
        small = b.ask([["small"]])
        await turns()
        worker.finish()
        await until(lambda: len(worker.batches) > 1)
        assert worker.batches[1].sentences == (orjson.dumps(["small"]),)
        worker.open()
        await asyncio.gather(small, work)
    assert sum(done) == sum(map(len, same_length("bulk", 60)))


@in_virtual_time
async def test_cancelled_work_gives_everything_back() -> None:
    async with bench(lambda: GatedWorker(is_open=False)) as b:
        work = work_of(b, lambda _: None)
        await until(lambda: len(b.workers[0].batches) == 1)
        assert b.engine.answers.used
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        b.workers[0].open()
        await turns()
        assert not b.engine.answers.used
