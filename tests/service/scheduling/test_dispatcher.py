"""The dispatcher composes good batches, and survives everything that happens to a worker."""

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import orjson
import pytest

from elmo_serve.errors import Overloaded, SentenceFailed, TooLarge, Unavailable
from elmo_serve.processes.arena import Arena, Block
from elmo_serve.scheduling.engine import Embedded
from elmo_serve.scheduling.fair_queue import MAX_SENTENCES
from elmo_serve.scheduling.request import RunningBatch
from elmo_serve.scheduling.throughput import Backlog
from elmo_serve.workers.language_results import Scores
from elmo_serve.workers.messages import Batch, Drop
from tests.support.clock import in_virtual_time
from tests.support.engines import (
    ALL,
    MIX,
    MODEL,
    TOP,
    Bench,
    bench,
    check,
    made_of,
    same_length,
    texts,
    turns,
    until,
)
from tests.support.workers import DIES, HANGS, NAN, RAISES, GatedWorker


@in_virtual_time
async def test_requests_of_one_turn_share_a_batch_whatever_their_outputs() -> None:
    async with bench() as b:
        await asyncio.gather(*(b.ask([["a", "b"]], output) for output in (TOP, ALL, MIX)))

        (batch,) = b.batches
        assert batch.outputs == (TOP, ALL, MIX)


@in_virtual_time
async def test_a_short_request_interrupts_the_batch_of_bulk_that_runs() -> None:
    async with bench(lambda: GatedWorker(is_open=False)) as b:
        sentences = same_length("w", 30)
        bulk = b.ask(sentences)
        await until(lambda: bool(b.batches))
        first, second = b.ask([["small"]]), b.ask([["other"], ["small"]])
        await until(lambda: len(b.batches) > 1)
        assert [batch.is_urgent for batch in b.batches] == [False, True]
        third = b.ask([["third"]])
        await turns()
        assert len(b.batches) == 2  # an interactive batch is not interrupted
        b.workers[0].finish()

        check(await first, [["small"]])
        check(await second, [["other"], ["small"]])
        await until(lambda: len(b.batches) > 2)
        b.workers[0].finish()
        check(await third, [["third"]])
        assert not bulk.done()
        b.workers[0].open()
        check(await bulk, sentences)
        assert b.computed[b.batches[0].sentences[0]] == 1


@in_virtual_time
async def test_late_bulk_is_interrupted_too() -> None:
    """In a long queue all bulk is late, and stands before interactive sentences."""
    async with bench(lambda: GatedWorker(is_open=False)) as b:
        bulk = [b.ask(same_length(f"w{n}", 30), timeout=3_600.0) for n in range(10)]
        await until(lambda: bool(b.batches))
        await asyncio.sleep(30.0)  # each was due after 2 s
        small = b.ask([["small"]])
        await until(lambda: len(b.batches) == 2)
        b.workers[0].finish()

        check(await small, [["small"]])
        assert not any(each.done() for each in bulk)
        b.workers[0].open()
        await asyncio.gather(*bulk)


@in_virtual_time
async def test_bulk_runs_for_as_long_as_its_last_interruption_took() -> None:
    """Else a stream of interactive requests would stop it for ever."""
    async with bench(lambda: GatedWorker(is_open=False)) as b:
        bulk = b.ask(same_length("w", 30), timeout=3_600.0)
        await until(lambda: bool(b.batches))
        first = b.ask([["first"]])
        await until(lambda: len(b.batches) == 2)
        await asyncio.sleep(7.0)
        b.workers[0].finish()
        await first
        second = b.ask([["second"]])
        await asyncio.sleep(6.9)
        assert len(b.batches) == 2
        await asyncio.sleep(0.2)
        assert len(b.batches) == 3

        b.workers[0].open()
        await asyncio.gather(bulk, second)


@in_virtual_time
async def test_sentences_of_a_request_that_ended_are_dropped_from_the_batch_that_runs() -> None:
    async with bench(lambda: GatedWorker(is_open=False)) as b:
        leaves, stays = (b.ask(same_length(name, 3)) for name in "ab")
        await until(lambda: bool(b.batches))
        (batch,) = b.batches
        leaves.cancel()
        await until(lambda: bool(b.workers[0].drops))

        (drop,) = b.workers[0].drops
        assert {batch.sentences[i] for i in drop.sentences} == texts(same_length("a", 3))
        assert drop.batch == batch.id
        b.workers[0].open()
        check(await stays, same_length("b", 3))


@in_virtual_time
async def test_a_batch_that_was_cut_short_is_no_measurement() -> None:
    """Its worker may have computed nothing of it, and seems as fast as it is not."""
    async with bench(lambda: GatedWorker(is_open=False, warm_up=1e-3)) as b:
        leaves = b.ask(same_length("a", 100))
        await until(lambda: bool(b.batches))
        leaves.cancel()
        await turns()
        b.workers[0].finish()
        bulk = b.ask(same_length("b", 100))  # 0.8 s by the warm-up
        await turns()
        with pytest.raises(Overloaded):
            await b.ask(same_length("c", 100), timeout=1.0)
        b.workers[0].open()
        await bulk


@in_virtual_time
async def test_a_batch_of_many_short_sentences_is_a_measurement() -> None:
    """It is as large as a batch may be, and far below the budget of tokens."""
    async with bench(partial(GatedWorker, 1e-3), budget=16_384) as b:
        await b.ask(same_length("a", MAX_SENTENCES, 1))
        with pytest.raises(TooLarge):
            await b.ask(same_length("b", 200), timeout=1.0)  # 1.6 s


@in_virtual_time
async def test_the_pace_is_that_of_vectors() -> None:
    """Requests for vectors were refused for a minute by the pace of substitutes."""
    async with bench(lambda: GatedWorker(is_open=False)) as b:
        scored = b.ask(same_length("w", 8), Scores())
        await until(lambda: bool(b.batches))
        small = b.ask([["small"]])  # scores are bulk at any size
        await until(lambda: len(b.batches) == 2)
        b.workers[0].finish()
        check(await small, [["small"]])
        await asyncio.sleep(4.0)
        b.workers[0].open()
        await scored

        assert not b.engine._dispatchers[MODEL].throughput.is_measured


@in_virtual_time
async def test_of_a_batch_that_runs_the_rest_counts() -> None:
    async with bench(partial(GatedWorker, 0.1)) as b:
        dispatcher = b.engine._dispatchers[MODEL]
        await b.ask(same_length("w", 8))  # a batch of 64 tokens, which takes 6.4 s
        bulk = b.ask(same_length("a", 16))
        await turns()
        seen = [dispatcher.backlog]
        await asyncio.sleep(2.0)
        small = b.ask([["small"]])  # takes 0.3 s, and the rest of bulk waits
        await asyncio.sleep(0.2)
        seen.append(dispatcher.backlog)
        await small
        await asyncio.sleep(0.4)
        seen.append(dispatcher.backlog)
        await bulk

        assert [each.bulk for each in seen] == pytest.approx([12.8, 10.8, 10.4])
        assert [each.interactive for each in seen] == pytest.approx([0.0, 0.1, 0.0])
        assert dispatcher.backlog == Backlog(0.0, 0.0, 0.0)


@in_virtual_time
async def test_an_interactive_request_that_fails_while_bulk_waits_leaves_no_empty_batch() -> None:
    """The exception of an empty urgent batch killed the worker, and its new batch was lost."""
    async with bench(lambda: GatedWorker(is_open=False)) as b:
        small = b.ask([[RAISES] * 38, *same_length("s", 5, 2)])
        await until(lambda: bool(b.batches))
        bulk = b.ask(same_length("b", 30))
        await turns()
        b.workers[0].finish()
        with pytest.raises(SentenceFailed):
            await small
        await turns()
        b.workers[0].open()

        check(await bulk, same_length("b", 30))
        assert len(b.workers) == 1


def test_a_batch_of_no_job_is_a_fault() -> None:
    with pytest.raises(AssertionError):
        RunningBatch.of([], 1, 4, Arena())


@in_virtual_time
async def test_an_interrupted_batch_and_the_urgent_one_are_both_run_again_after_a_loss() -> None:
    async with bench(GatedWorker, GatedWorker) as b:
        await until(lambda: b.pool.ready_count == 2)
        for worker in b.workers:
            worker.close()
        bulk = b.ask(sentences := same_length("w", 30))
        await until(lambda: len(b.batches) == 2)
        small = b.ask([["small"]])
        await until(lambda: len(b.batches) == 3)
        (lost,) = (worker for worker in b.workers if len(worker.batches) == 2)
        lost.die("was killed by SIGKILL")
        for worker in b.workers:
            if worker is not lost:
                worker.open()

        check(await small, [["small"]])
        check(await bulk, sentences)


@in_virtual_time
async def test_of_a_cpu_and_a_gpu_the_faster_one_is_given_work_first() -> None:
    cpu, gpu = (partial(GatedWorker, pace, warm_up=pace) for pace in (1e-3, 1e-5))
    async with bench(cpu, gpu, device="cpu,cuda:0") as b:
        await until(lambda: b.pool.ready_count == 2)
        for number in range(5):
            await b.ask([[f"{number}"]])
        slow_batches, fast_batches = (worker.batches for worker in b.workers)
        assert (len(slow_batches), len(fast_batches)) == (0, 5)

        await b.ask(same_length("w", 1_000))
        assert len(fast_batches) > 10 * len(slow_batches) > 0


@in_virtual_time
async def test_the_wait_of_a_request_is_that_for_its_first_batch() -> None:
    async with bench(partial(GatedWorker, 1e-2), budget=16) as b:
        await asyncio.gather(*(b.ask(made_of(word, 10)) for word in "ab"))

        assert b.count("elmo_queue_wait_seconds_count") == 2


# One sentence makes the model fail


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 16])
@pytest.mark.parametrize("place", [0, 0.5, 1])
@in_virtual_time
async def test_only_the_culprit_fails_and_it_is_found_by_halving(size: int, place: float) -> None:
    async with bench() as b:
        sentences = [[f"s{index}", "x"] for index in range(size)]
        culprit = round(place * (size - 1))
        sentences[culprit][1] = RAISES
        tasks = [b.ask([sentence]) for sentence in sentences]
        found = await asyncio.gather(*tasks, return_exceptions=True)

        for index, (answer, sentence) in enumerate(zip(found, sentences, strict=True)):
            if index == culprit:
                assert isinstance(answer, SentenceFailed)
                assert [fault.pointer for fault in answer.errors] == ["/sentences/0"]
            else:
                assert isinstance(answer, Embedded)
                check(answer, [sentence])
        assert len(b.batches) - 1 <= 2 * math.ceil(math.log2(size)) + 1
        assert b.count("elmo_failures_total", reason="sentence") == 1


@in_virtual_time
async def test_an_error_points_to_the_sentence_in_each_request_that_has_it() -> None:
    async with bench() as b:
        one, two = b.ask([["fine"], [RAISES]]), b.ask([[RAISES], ["fine"], ["too"]])
        found = await asyncio.gather(one, two, return_exceptions=True)

        failed = [e for e in found if isinstance(e, SentenceFailed)]
        assert [error.index for error in failed] == [1, 0]
        pointers = [error.errors[0].pointer for error in failed]
        assert pointers == ["/sentences/1", "/sentences/0"]


@in_virtual_time
async def test_a_sentence_with_vectors_that_are_not_finite_fails_alone() -> None:
    async with bench() as b:
        tasks = [b.ask([["a"]]), b.ask([[NAN]]), b.ask([["b"]])]
        found = await asyncio.gather(*tasks, return_exceptions=True)

        assert isinstance(found[1], SentenceFailed)
        assert "finite" in found[1].detail
        for answer, sentence in ((found[0], ["a"]), (found[2], ["b"])):
            assert isinstance(answer, Embedded)
            check(answer, [sentence])
        assert len(b.batches) == 1
        assert b.count("elmo_failures_total", reason="not_finite") == 1


# A worker is lost


@in_virtual_time
async def test_the_batch_of_a_lost_worker_is_replayed_once_on_another() -> None:
    async with bench(partial(GatedWorker, 0.002), partial(GatedWorker, 0.002)) as b:
        sentences = made_of("s", 60)
        tasks = [b.ask([sentence]) for sentence in sentences]
        await until(lambda: any(worker.batches for worker in b.workers))
        next(worker for worker in b.workers if worker.batches).die("was killed by SIGKILL")

        for task, sentence in zip(tasks, sentences, strict=True):
            check(await task, [sentence])
        assert max(b.computed.values()) == 2
        assert b.count("elmo_failures_total", reason="worker_lost") == 1
        assert b.count("elmo_cancelled_sentences_total", stage="lost") == 0


@in_virtual_time
async def test_without_another_worker_the_batch_that_ran_fails_and_the_rest_waits() -> None:
    async with bench(partial(GatedWorker, 0.001)) as b:
        sentences = same_length("s", 80)
        tasks = [b.ask([sentence]) for sentence in sentences]
        await until(lambda: bool(b.batches))
        ran = set(b.batches[0].sentences)
        b.workers[0].die("was killed by SIGKILL")
        await until(lambda: any(task.done() for task in tasks))
        reason = b.engine.unavailable_reason()
        assert reason is not None, "the requests failed after the worker was back"
        found = await asyncio.gather(*tasks, return_exceptions=True)

        for answer, sentence in zip(found, sentences, strict=True):
            if orjson.dumps(sentence) in ran:
                assert isinstance(answer, Unavailable)
                assert answer.retry_after == 1
            else:
                assert isinstance(answer, Embedded)
                check(answer, [sentence])
        assert b.count("elmo_failures_total", reason="worker_lost") == 1
        assert b.count("elmo_cancelled_sentences_total", stage="lost") == len(ran)
        assert b.count("elmo_worker_restarts_total", device="cpu") == 1


@in_virtual_time
async def test_a_sentence_that_kills_workers_kills_two_of_three_at_most() -> None:
    async with bench(GatedWorker, GatedWorker, GatedWorker) as b:
        with pytest.raises(Unavailable):
            await b.ask([[DIES]])
        check(await b.ask([["fine"]]), [["fine"]])

        assert sum(worker.is_dead for worker in b.workers) == 2


@in_virtual_time
async def test_a_worker_that_hangs_is_replaced_and_its_other_requests_are_answered() -> None:
    async with bench(GatedWorker) as b:
        await b.ask([["warm"]])
        hung = b.ask([[HANGS]])
        await until(lambda: len(b.batches) == 2)
        behind = b.ask([["behind"]])
        with pytest.raises(Unavailable):
            await hung

        check(await behind, [["behind"]])
        assert b.count("elmo_failures_total", reason="worker_hung") == 1


# There is no memory


@in_virtual_time
async def test_a_batch_without_device_memory_is_halved_and_the_budget_follows() -> None:
    async with bench(lambda: GatedWorker(memory_tokens=20), budget=64) as b:
        sentences = same_length("s", 200, 2)
        check(await b.ask(sentences), sentences)

        too_large = [batch for batch in b.batches if batch.padded_tokens > 20]
        assert 1 <= len(too_large) <= 2  # of 64 and of 32
        learned = b.pool.slots[0].budget
        assert 16 <= learned <= 20
        assert b.count("elmo_batch_budget_tokens", device="cpu") == learned


@in_virtual_time
async def test_a_sentence_without_device_memory_is_answered_503() -> None:
    async with bench(lambda: GatedWorker(memory_tokens=20), budget=64) as b:
        tasks = [b.ask([["long"] * 40]), b.ask([["short"]])]
        found = await asyncio.gather(*tasks, return_exceptions=True)

        assert isinstance(found[0], Unavailable)
        assert isinstance(found[1], Embedded)
        assert b.count("elmo_failures_total", reason="memory") == 1


@contextmanager
def full_arena(b: Bench) -> Iterator[None]:
    """Let the arena have no free extent."""
    arena = b.engine._dispatchers[MODEL]._arena
    free, arena._free = arena._free, []
    try:
        yield
    finally:
        arena._free = free


@in_virtual_time
async def test_a_batch_without_shared_memory_is_answered_503_and_the_worker_stays() -> None:
    async with bench(budget=24) as b:
        with full_arena(b):
            tasks = [b.ask([sentence]) for sentence in same_length("a", 5)]
            await turns()
        found = await asyncio.gather(*tasks, return_exceptions=True)

        refused = [answer for answer in found if isinstance(answer, Unavailable)]
        assert [answer.retry_after for answer in refused] == [1, 1, 1]  # one batch of 24 tokens
        assert sum(isinstance(answer, Embedded) for answer in found) == 2
        check(await b.ask([["next"]]), [["next"]])
        assert len(b.workers) == 1


class TakesOne(GatedWorker):
    """A worker that cannot be given a second batch."""

    def send(self, message: Batch | Drop, /, *blocks: Block) -> None:
        if self.batches:
            raise MemoryError
        super().send(message, *blocks)


@in_virtual_time
async def test_results_are_not_lost_when_the_next_batch_cannot_be_given() -> None:
    async with bench(lambda: TakesOne(is_open=False)) as b:
        first = b.ask([["a"]])
        await until(lambda: bool(b.batches))
        second = b.ask([["b"]])
        await turns()
        with pytest.raises(MemoryError):
            b.workers[0].open()

        check(await first, [["a"]])
        second.cancel()
        await asyncio.wait([second])
