"""The engine answers requests whole and in time, or with an error, and gives back their tokens."""

import asyncio
import math
import random
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from elmo_serve.errors import (
    DeadlineExceeded,
    Overloaded,
    SentenceFailed,
    ServiceError,
    TooLarge,
    Unavailable,
)
from tests.support.clock import LoopClock, in_virtual_time
from tests.support.engines import (
    ALL,
    MIX,
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
async def test_every_request_gets_its_own_vectors_in_its_own_order() -> None:
    async with bench(GatedWorker, GatedWorker) as b:
        outputs = [TOP, ALL, MIX]
        requests = [(made_of(f"{n}-", n % 40), outputs[n % 3]) for n in range(120)]
        tasks = [b.ask(sentences, output) for sentences, output in requests]
        for task, (sentences, output) in zip(tasks, requests, strict=True):
            check(await task, sentences, output)


@in_virtual_time
async def test_the_time_in_the_queue_and_the_time_with_a_worker_are_reported() -> None:
    async with bench(partial(GatedWorker, 1e-2), budget=8) as b:
        first, second = b.ask([["a"] * 6]), b.ask([["b"] * 6])
        one, two = await first, await second

        assert (one.queue_seconds, two.queue_seconds) == pytest.approx((0.0, 0.08))
        assert (one.infer_seconds, two.infer_seconds) == pytest.approx((0.08, 0.08))


# Limits


@in_virtual_time
async def test_admission_is_all_or_nothing() -> None:
    async with bench(partial(GatedWorker, 1e-4), queue_tokens=400) as b:
        first, second = same_length("a", 60, 3), same_length("b", 30, 3)  # 300 and 150 tokens
        task = b.ask(first)
        await turns()
        with pytest.raises(Overloaded):
            await b.ask(second)
        with pytest.raises(TooLarge):
            await b.ask(same_length("x", 200, 1))
        check(await task, first)

        assert not texts(second) & b.computed.keys()


@in_virtual_time
async def test_every_answered_sentence_makes_room() -> None:
    async with bench(lambda: GatedWorker(is_open=False), queue_tokens=4_000, budget=2_000) as b:
        large, small = same_length("a", 450), same_length("b", 100)  # 3,600 and 800 tokens
        task = b.ask(large)
        await turns()
        with pytest.raises(Overloaded):
            await b.ask(small, is_bulk=True)
        b.workers[0].finish()
        second = b.ask(small, is_bulk=True)
        await turns()
        b.workers[0].open()

        check(await second, small)
        check(await task, large)


@in_virtual_time
async def test_a_refused_request_is_admitted_after_its_retry_after() -> None:
    per_token = 1e-3
    async with bench(partial(GatedWorker, per_token), queue_tokens=1_000) as b:
        await b.ask(same_length("w", 16))  # the throughput is measured now
        task = b.ask(same_length("a", 120))  # 960 tokens
        await turns()
        wanted = same_length("b", 100)  # 800 tokens: 760 have to be answered first
        with pytest.raises(Overloaded) as caught:
            await b.ask(wanted)

        assert caught.value.retry_after == math.ceil(760 * per_token)
        await asyncio.sleep(caught.value.retry_after)
        check(await b.ask(wanted), wanted)
        await task


@in_virtual_time
async def test_a_request_that_would_be_late_is_refused_before_it_is_queued() -> None:
    async with bench(partial(GatedWorker, 1e-3)) as b:
        await b.ask(same_length("w", 16))
        bulk = b.ask(same_length("a", 125))  # 1,000 tokens, a second
        await turns()
        hopeless = same_length("b", 100)  # 0.8 s by itself
        with pytest.raises(Overloaded) as caught:
            await b.ask(hopeless, timeout=1.1)
        small = await b.ask([["small"]], timeout=0.5)  # it overtakes the bulk

        assert caught.value.retry_after >= 1
        check(small, [["small"]])
        await bulk
        assert not texts(hopeless) & b.computed.keys()


@in_virtual_time
async def test_a_batch_that_runs_counts_as_queued_before_a_new_request() -> None:
    async with bench(lambda: GatedWorker(is_open=False), budget=4_000) as b:
        task = b.ask(same_length("a", 400))  # 3,200 tokens in one batch
        await turns()
        assert b.queue.tokens == 0
        with pytest.raises(Overloaded, match=r"3\.2 s"):
            await b.ask([["small"]], timeout=5.0)
        b.workers[0].open()
        await task


@in_virtual_time
async def test_equal_sentences_of_a_request_count_once() -> None:
    async with bench(partial(GatedWorker, 1e-3), queue_tokens=100) as b:
        await b.ask(same_length("w", 8))  # the throughput is measured now
        copies = same_length("a", 1) * 90 + same_length("b", 10)
        check(await b.ask(copies, timeout=0.5), copies)


# Requests that end early


class NoTimers(LoopClock):
    """A clock for which there is no memory, once a test says so."""

    is_broken = False

    def call_later(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        if self.is_broken:
            raise MemoryError
        return super().call_later(seconds, call)


@in_virtual_time
async def test_what_is_admitted_is_given_back_when_the_request_cannot_begin() -> None:
    clock = NoTimers()
    async with bench(clock=clock) as b:
        clock.is_broken = True
        with pytest.raises(MemoryError):
            await b.ask([["a"]])
        clock.is_broken = False
        check(await b.ask([["b"]]), [["b"]])


@in_virtual_time
async def test_sentences_of_a_client_that_left_are_never_computed() -> None:
    async with bench(lambda: GatedWorker(is_open=False)) as b:
        task = b.ask(same_length("a", 400))
        await turns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        given = sum(len(batch.sentences) for batch in b.workers[0].queue)
        b.workers[0].open()
        check(await b.ask([["next"]]), [["next"]])

        assert b.computed.total() == given + 1
        assert b.count("elmo_cancelled_sentences_total", stage="running") == given
        assert b.count("elmo_cancelled_sentences_total", stage="queued") == 400 - given


@in_virtual_time
async def test_late_sentences_are_never_computed() -> None:
    async with bench(lambda: GatedWorker(is_open=False)) as b:
        filler = b.ask(same_length("f", 8))
        await turns()
        late, start = same_length("l", 3), asyncio.get_running_loop().time()
        with pytest.raises(DeadlineExceeded):
            await b.ask(late, timeout=0.2)
        seconds = asyncio.get_running_loop().time() - start
        b.workers[0].open()
        await filler

        assert seconds == pytest.approx(0.2)
        assert not texts(late) & b.computed.keys()
        assert b.count("elmo_cancelled_sentences_total", stage="queued") == 3
        assert b.count("elmo_failures_total", reason="deadline") == 1


@pytest.mark.parametrize("seconds", [0.0, -1.0])
@in_virtual_time
async def test_a_timeout_that_is_over_on_arrival_queues_nothing(seconds: float) -> None:
    async with bench() as b:
        with pytest.raises(DeadlineExceeded):
            await b.ask([["a"]], timeout=seconds)
        await turns()

        assert not b.batches
        assert b.count("elmo_failures_total", reason="deadline") == 1


@in_virtual_time
async def test_sentences_that_wait_for_a_new_worker_are_dropped_with_their_request() -> None:
    """A batch to be replayed is in no queue; it must not count as queued when nobody wants it."""
    kinds = iter([GatedWorker(is_open=False), GatedWorker(loads=False)])
    async with bench(lambda: next(kinds), budget=96, device="cuda:0") as b:
        tasks = [b.ask(same_length("a", 12))]
        await turns()
        tasks.append(b.ask(same_length("b", 12)))
        await until(lambda: len(b.workers[0].queue) == 2)
        b.workers[0].die("was killed by SIGKILL")
        await until(lambda: b.engine.unavailable_reason() is not None)
        with pytest.raises(Unavailable, match="not ready"):
            await b.ask([["late"]])
        assert b.queue.sentences == 12, "the batch that waited with the worker is replayed"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

        assert (b.queue.sentences, b.queue.tokens) == (0, 0)


# Draining


@in_virtual_time
async def test_requests_fail_when_the_drain_time_is_over() -> None:
    async with bench(lambda: GatedWorker(is_open=False)) as b:
        task = b.ask([["a"] * 20])
        await turns()

        assert not await b.engine.drain(0.02)
        with pytest.raises(Unavailable, match="drain time"):
            await task
        assert b.workers[0].is_dead


# Everything at once


@pytest.mark.parametrize("seed", range(5))
@in_virtual_time
async def test_a_storm_leaves_nothing_hanging_and_nothing_wrong(seed: int) -> None:
    source = random.Random(seed)

    def make() -> GatedWorker:
        return GatedWorker(seconds_per_token=2e-6, memory_tokens=50)

    async with bench(make, make) as b:
        clients = [stormy_client(b, name, source) for name in range(40)]
        outcomes: Counter[str] = sum(await asyncio.gather(*clients), Counter())

        assert outcomes.total() == 40 * 12
        assert outcomes["answered"] > 100
        assert outcomes["DeadlineExceeded"] == 0


async def stormy_client(b: Bench, name: int, source: random.Random) -> Counter[str]:
    """Send requests, some with bad words, and cancel some; return how often each outcome came."""
    bad = ["x"] * 1_000 + [RAISES, NAN] * 15 + [DIES, HANGS]
    outcomes: Counter[str] = Counter()
    for turn in range(12):
        count = source.randrange(12)
        sentences = [[f"{name % 7}-{turn}-{i}", source.choice(bad)] for i in range(count)]
        task = b.ask(sentences, timeout=600)
        if source.random() < 0.1:
            await asyncio.sleep(0)
            task.cancel()
        try:
            check(await task, sentences)
            outcomes["answered"] += 1
        except (ServiceError, asyncio.CancelledError) as error:
            outcomes[type(error).__name__] += 1
            if isinstance(error, SentenceFailed):
                assert any({RAISES, NAN} & set(sentence) for sentence in sentences)
            if isinstance(error, Unavailable):
                await asyncio.sleep(0.02)
    return outcomes
