"""The engine keeps its promises over workers that fail in every way a worker can."""

from __future__ import annotations

import asyncio
import math
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np
import orjson
import pytest

from elmo_serve.errors import (
    ClientOverShare,
    DeadlineExceeded,
    Overloaded,
    SentenceFailed,
    ServiceError,
    TooLarge,
    Unavailable,
)
from elmo_serve.metrics import Metrics
from elmo_serve.output import Output
from elmo_serve.scheduling.admission import Limits
from elmo_serve.scheduling.engine import Embedded, Engine
from elmo_serve.workers.messages import Batch, Done, Failed, Message, ModelInfo, Ready
from elmo_serve.workers.pool import WorkerPool
from elmo_serve.workers.shared_memory import SharedMemoryPool, view
from elmo_serve.workers.watchdog import Timeouts
from elmo_serve.workers.worker_slot import WorkerSpec

DIMENSION = 4
INFO = ModelInfo("fake", "0", "fake", 3, DIMENSION, 0, "float32")
TOP = Output(layers=(2,))
ALL = Output(layers=(0, 1, 2), stacked=True)
MIX = Output(weights=(0.0, 0.0, 0.0), pooling="mean", dtype="float16")

USUAL = Timeouts()

# Words that a fake worker does not survive.
RAISES, NAN, DIES, HANGS = "!raises", "!nan", "!dies", "!hangs"


@dataclass
class Fake:
    """A worker without a model: each sentence is answered with a number made of its own text."""

    seconds_per_token: float = 0.0
    memory_tokens: float = math.inf
    loads: bool = True
    batches: list[Batch] = field(default_factory=list)
    is_dead: bool = False
    is_hanging: bool = False
    _queue: list[Batch] = field(default_factory=list)
    _timer: asyncio.TimerHandle | None = None

    def start(self, said: Callable[[Message], None], ended: Callable[[str], None]) -> None:
        self._said, self._ended = said, ended
        if self.loads:
            asyncio.get_running_loop().call_soon(said, Ready(INFO))

    def submit(self, batch: Batch) -> None:
        assert not self.is_dead, "a dead worker was given work"
        self._queue.append(batch)
        if len(self._queue) == 1:
            self._begin()

    def kill(self) -> None:
        self.die("was killed")

    async def stop(self) -> None:
        if not self.is_dead:
            self.die("stopped")

    def die(self, reason: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.is_dead = True
        asyncio.get_running_loop().call_soon(self._ended, reason)

    def _begin(self) -> None:
        batch = self._queue[0]
        self.batches.append(batch)
        if any(HANGS in words(sentence) for sentence in batch.sentences):
            self.is_hanging = True
            return
        seconds = self.seconds_per_token * batch.padded_tokens
        self._timer = asyncio.get_running_loop().call_later(seconds, self._end, batch, seconds)

    def _end(self, batch: Batch, seconds: float) -> None:
        if any(DIES in words(sentence) for sentence in batch.sentences):
            self.die("was killed by SIGSEGV")
            return
        self._said(self._run(batch, seconds))  # which may submit the next one
        self._queue.pop(0)
        if self._queue and not self.is_dead:
            self._begin()

    def _run(self, batch: Batch, seconds: float) -> Message:
        if batch.padded_tokens > self.memory_tokens:
            return Failed(batch.id, seconds, True, "OutOfMemoryError")
        if any(RAISES in words(sentence) for sentence in batch.sentences):
            return Failed(batch.id, seconds, False, "IndexError: of the model's own")
        memory = np.frombuffer(batch.segment.memory, np.uint8)
        parts = zip(batch.sentences, batch.offsets, batch.outputs, strict=True)
        for sentence, offset, output in parts:
            shape = output.shape(len(words(sentence)), DIMENSION)
            view(memory, offset, shape, output.dtype)[...] = mark(sentence)
        broken = [i for i, sentence in enumerate(batch.sentences) if NAN in words(sentence)]
        return Done(batch.id, seconds, 0, 0, tuple(broken))


def words(sentence: bytes) -> list[str]:
    return list(orjson.loads(sentence))


def mark(sentence: bytes) -> int:
    """A number that says which sentence it is; small enough for float16."""
    return zlib.crc32(sentence) % 2048


@dataclass
class Bench:
    """An engine over fake workers, and every worker it has had."""

    engine: Engine
    metrics: Metrics
    workers: list[Fake]

    @property
    def batches(self) -> list[Batch]:
        return [batch for worker in self.workers for batch in worker.batches]

    @property
    def computed(self) -> Counter[bytes]:
        """How often each sentence was given to a worker."""
        return Counter(sentence for batch in self.batches for sentence in batch.sentences)

    def ask(
        self,
        sentences: Sequence[list[str]],
        output: Output = TOP,
        timeout: float = 60.0,
        client: str = "",
    ) -> asyncio.Task[Embedded]:
        texts = [orjson.dumps(sentence) for sentence in sentences]
        lengths = [len(sentence) for sentence in sentences]
        return asyncio.ensure_future(self.engine.embed(texts, lengths, output, timeout, client))

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def bench(
    *makes: Callable[[], Fake],
    budget: int = 64,
    queue_tokens: int = 100_000,
    answer_bytes: int = 1 << 30,
    client_tokens: int | None = None,
    patience: Timeouts = USUAL,
) -> AsyncIterator[Bench]:
    """Start an engine; each of ``makes`` is a seat. Nothing may be left over at the end."""
    workers: list[Fake] = []

    def maker(make: Callable[[], Fake]) -> Callable[[], Fake]:
        def made() -> Fake:
            workers.append(make())
            return workers[-1]

        return made

    metrics, segments = Metrics(), SharedMemoryPool()
    plans = [WorkerSpec("cpu", budget, maker(make), patience) for make in makes or (Fake,)]
    limits = Limits(queue_tokens, answer_bytes, client_tokens)
    engine = Engine(WorkerPool(plans, metrics), segments, limits, metrics)
    engine.start()
    await engine.pool.first_outcome()
    yield Bench(engine, metrics, workers)
    assert (engine.queued_sentences, engine.queued_tokens) == (0, 0)
    # Every call has ended: the whole queue is free again.
    if engine.why_not() is None:
        room = client_tokens or queue_tokens
        whole = [[str(i)] * (room // 10 - 2) for i in range(10)]
        texts = [orjson.dumps(sentence) for sentence in whole]
        with pytest.raises(DeadlineExceeded):
            await engine.embed(texts, [len(sentence) for sentence in whole], TOP, 1e-9)
    await engine.pool.stop()


def made_of(text: str, count: int) -> list[list[str]]:
    return [[f"{text}{index}"] * (1 + index % 7) for index in range(count)]


def check(embedded: Embedded, sentences: Sequence[list[str]], output: Output = TOP) -> None:
    """Assert that each sentence got its own vectors."""
    assert len(embedded.vectors) == len(sentences)
    for vectors, sentence in zip(embedded.vectors, sentences, strict=True):
        array = vectors.numpy()
        assert array.shape == output.shape(len(sentence), DIMENSION)
        assert (array == mark(orjson.dumps(sentence))).all()


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this never came"
        await asyncio.sleep(0.001)


async def test_every_call_gets_its_own_vectors_in_its_own_order() -> None:
    async with bench(Fake, Fake) as b:
        outputs = [TOP, ALL, MIX]
        calls = [(made_of(f"{n}-", n % 40), outputs[n % 3]) for n in range(120)]
        tasks = [b.ask(sentences, output) for sentences, output in calls]
        for task, (sentences, output) in zip(tasks, calls, strict=True):
            check(await task, sentences, output)


async def test_unequal_outputs_share_a_batch() -> None:
    async with bench() as b:
        tasks = [b.ask([["a", "b"]], output) for output in (TOP, ALL, MIX)]
        await asyncio.gather(*tasks)

        (batch,) = b.batches
        assert batch.outputs == (TOP, ALL, MIX)


async def test_no_sentence_and_empty_sentences_are_answered() -> None:
    async with bench() as b:
        assert (await b.ask([])).vectors == []
        check(await b.ask([[], ["x"], []]), [[], ["x"], []])


async def test_identical_sentences_are_computed_once() -> None:
    async with bench() as b:
        same = ["the", "same"]
        tasks = [b.ask([same, [str(n)], same]) for n in range(10)]
        for n, task in enumerate(tasks):
            check(await task, [same, [str(n)], same])

        assert b.computed[orjson.dumps(same)] == 1


async def test_a_sentence_that_runs_is_shared_with_those_who_come_now() -> None:
    async with bench(lambda: Fake(seconds_per_token=0.02)) as b:
        first = b.ask([["slow"]])
        await until(lambda: bool(b.batches))
        second = b.ask([["slow"]])

        for task in (first, second):
            check(await task, [["slow"]])
        assert b.computed[orjson.dumps(["slow"])] == 1


async def test_a_shared_sentence_does_not_wait_for_its_place_in_a_bulk_call() -> None:
    async with bench(lambda: Fake(seconds_per_token=2e-5)) as b:
        sentences = [[f"w{index}"] * 6 for index in range(2_000)]
        bulk = b.ask(sentences)
        await until(lambda: len(b.batches) > 2)
        await b.ask([sentences[-1]])

        assert len(b.batches) < 20
        check(await bulk, sentences)


# One input makes the model fail


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 16])
@pytest.mark.parametrize("place", [0, 0.5, 1])
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


async def test_several_culprits_fail_alone() -> None:
    async with bench() as b:
        sentences = [[f"s{i}", RAISES if i in (2, 3, 11) else "x"] for i in range(16)]
        tasks = [b.ask([sentence]) for sentence in sentences]
        found = await asyncio.gather(*tasks, return_exceptions=True)

        failed = [index for index, answer in enumerate(found) if isinstance(answer, Exception)]
        assert failed == [2, 3, 11]


async def test_an_error_points_to_the_sentence_in_each_call_that_has_it() -> None:
    async with bench() as b:
        one, two = b.ask([["fine"], [RAISES]]), b.ask([[RAISES], ["fine"], ["too"]])
        found = await asyncio.gather(one, two, return_exceptions=True)

        pointers = [e.errors[0].pointer for e in found if isinstance(e, SentenceFailed)]
        assert pointers == ["/sentences/1", "/sentences/0"]


async def test_numbers_that_are_not_finite_fail_their_sentence_alone() -> None:
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


async def test_nothing_internal_is_told() -> None:
    async with bench() as b:
        with pytest.raises(SentenceFailed) as caught:
            await b.ask([[RAISES]])

        assert "IndexError" not in str(caught.value)


# A worker is lost


async def test_what_a_lost_worker_ran_is_replayed_once_on_another() -> None:
    slow = 0.002
    async with bench(lambda: Fake(slow), lambda: Fake(slow)) as b:
        sentences = made_of("s", 60)
        tasks = [b.ask([sentence]) for sentence in sentences]
        await until(lambda: any(worker.batches for worker in b.workers))
        next(worker for worker in b.workers if worker.batches).die("was killed by SIGKILL")

        for task, sentence in zip(tasks, sentences, strict=True):
            check(await task, [sentence])
        assert max(b.computed.values()) == 2
        assert b.count("elmo_failures_total", reason="worker_lost") == 0


async def test_alone_a_lost_worker_fails_what_it_ran_and_the_rest_waits_for_the_next() -> None:
    async with bench(lambda: Fake(seconds_per_token=0.001)) as b:
        sentences = [[f"s{index}"] * 6 for index in range(80)]
        tasks = [b.ask([sentence]) for sentence in sentences]
        await until(lambda: bool(b.batches))
        running = set(b.batches[0].sentences)
        start = time.monotonic()
        b.workers[0].die("was killed by SIGKILL")
        first = next(
            task
            for task, sentence in zip(tasks, sentences, strict=True)
            if orjson.dumps(sentence) in running
        )
        with pytest.raises(Unavailable):
            await first
        assert time.monotonic() - start < 1
        assert b.engine.why_not() is not None
        found = await asyncio.gather(*tasks, return_exceptions=True)

        for answer, sentence in zip(found, sentences, strict=True):
            if orjson.dumps(sentence) in running:
                assert isinstance(answer, Unavailable)
                assert answer.retry_after == 1
            else:
                assert isinstance(answer, Embedded)
                check(answer, [sentence])
        assert b.count("elmo_failures_total", reason="worker_lost") == len(running)
        assert b.count("elmo_worker_restarts_total", device="cpu") == 1


async def test_a_sentence_that_kills_workers_kills_two_of_three_at_most() -> None:
    async with bench(Fake, Fake, Fake) as b:
        with pytest.raises(Unavailable):
            await b.ask([[DIES]])
        check(await b.ask([["fine"]]), [["fine"]])

        assert sum(worker.is_dead for worker in b.workers) == 2


async def test_a_request_meets_no_worker_and_is_refused_at_once() -> None:
    async with bench() as b:
        b.workers[0].die("was killed by SIGKILL")
        await until(lambda: b.engine.why_not() is not None)

        with pytest.raises(Unavailable) as caught:
            await b.ask([["a"]])
        assert "SIGKILL" in caught.value.detail
        await until(lambda: b.engine.why_not() is None)


async def test_a_hanging_worker_is_noticed_by_its_own_pace_and_replaced() -> None:
    patience = Timeouts(first_batch=5, batch=0.1)
    async with bench(Fake, patience=patience) as b:
        await b.ask([["warm"]])
        start = time.monotonic()
        hung = b.ask([[HANGS]])
        await until(lambda: b.workers[0].is_hanging)
        behind = b.ask([["behind"]])
        with pytest.raises(Unavailable):
            await hung

        assert 0.1 <= time.monotonic() - start < 0.5
        check(await behind, [["behind"]])
        assert b.count("elmo_failures_total", reason="worker_hung") == 1


async def test_a_worker_that_never_answers_at_all_is_noticed_too() -> None:
    async with bench(Fake, patience=Timeouts(first_batch=0.1)) as b:
        with pytest.raises(Unavailable):
            await b.ask([[HANGS]])


async def test_a_worker_that_never_ends_loading_is_replaced() -> None:
    kinds = iter([Fake(loads=False), Fake(), Fake()])
    async with bench(Fake, lambda: next(kinds), patience=Timeouts(load=0.1)) as b:
        await until(lambda: len(b.workers) == 3)
        await until(lambda: b.engine.pool.ready_count == 2)


# The device has no memory


async def test_memory_that_is_short_halves_the_batch_and_is_remembered() -> None:
    async with bench(lambda: Fake(memory_tokens=20), budget=64) as b:
        sentences = [[f"s{index}"] * 2 for index in range(200)]
        check(await b.ask(sentences), sentences)

        too_large = [batch for batch in b.batches if batch.padded_tokens > 20]
        assert 1 <= len(too_large) <= 4  # of 64 and of 32: one that ran, one given ahead
        learned = b.engine.pool.slots[0].budget
        assert 16 <= learned <= 20
        assert b.count("elmo_batch_budget_tokens", device="cpu") == learned


async def test_a_budget_grows_back_when_there_is_memory_again() -> None:
    async with bench(lambda: Fake(memory_tokens=20), budget=64) as b:
        sentences = [[f"s{index}"] * 2 for index in range(40)]
        await b.ask(sentences)
        low = b.engine.pool.slots[0].budget
        b.workers[0].memory_tokens = math.inf
        many = [[f"t{index}"] * 2 for index in range(7_000)]
        check(await b.ask(many), many)

        assert low <= 20
        assert b.engine.pool.slots[0].budget == 64


async def test_a_sentence_without_memory_is_refused_for_now() -> None:
    async with bench(lambda: Fake(memory_tokens=20), budget=64) as b:
        tasks = [b.ask([["long"] * 40]), b.ask([["short"]])]
        found = await asyncio.gather(*tasks, return_exceptions=True)

        assert isinstance(found[0], Unavailable)
        assert isinstance(found[1], Embedded)
        assert b.count("elmo_failures_total", reason="memory") == 1


# Too much


async def test_admission_is_all_or_nothing() -> None:
    async with bench(lambda: Fake(seconds_per_token=1e-4), queue_tokens=400) as b:
        first = [[f"a{index}"] * 3 for index in range(60)]  # 300 tokens with their boundaries
        second = [[f"b{index}"] * 3 for index in range(30)]  # 150
        task = b.ask(first)
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await b.ask(second)
        with pytest.raises(TooLarge):
            await b.ask([["x"]] * 200)
        check(await task, first)

        assert not {orjson.dumps(sentence) for sentence in second} & b.computed.keys()


async def test_room_is_made_by_every_sentence_that_is_answered() -> None:
    async with bench(lambda: Fake(seconds_per_token=1e-4), queue_tokens=4_000) as b:
        large = [[f"a{index}"] * 6 for index in range(450)]  # 3,600
        task = b.ask(large)
        await until(lambda: len(b.batches) > 2)
        await until(lambda: b.engine.queued_tokens < 2_000)
        small = [[f"b{index}"] * 6 for index in range(100)]
        check(await b.ask(small), small)

        assert not task.done()
        check(await task, large)


async def test_retry_after_is_honest() -> None:
    per_token = 1e-3
    async with bench(lambda: Fake(seconds_per_token=per_token), queue_tokens=1_000) as b:
        await b.ask([[f"w{index}"] * 6 for index in range(16)])  # the rate is known now
        task = b.ask([[f"a{index}"] * 6 for index in range(120)])  # 960 tokens, a second
        await asyncio.sleep(0)
        wanted = [[f"b{index}"] * 6 for index in range(100)]  # 800: 760 have to leave first
        with pytest.raises(Overloaded) as caught:
            await b.ask(wanted)

        assert caught.value.retry_after == math.ceil(760 * per_token)
        await asyncio.sleep(caught.value.retry_after)
        check(await b.ask(wanted), wanted)
        await task


async def test_a_request_that_cannot_be_in_time_is_refused_before_it_is_queued() -> None:
    async with bench(lambda: Fake(seconds_per_token=1e-3)) as b:
        await b.ask([[f"w{index}"] * 6 for index in range(16)])
        bulk = b.ask([[f"a{index}"] * 6 for index in range(125)])  # 1,000 tokens, a second
        await asyncio.sleep(0)
        hopeless = [[f"b{index}"] * 6 for index in range(100)]  # 0.8 s by itself
        with pytest.raises(Overloaded) as caught:
            await b.ask(hopeless, timeout=1.1)
        small = await b.ask([["small"]], timeout=0.5)  # it does not wait for the bulk

        assert caught.value.retry_after >= 1
        check(small, [["small"]])
        await bulk
        assert b.computed[orjson.dumps(hopeless[0])] == 0


async def test_answers_have_a_limit_together_and_each() -> None:
    async with bench(answer_bytes=1000) as b:
        held = b.engine.admission.reserve(600)
        with pytest.raises(Overloaded):
            b.engine.admission.reserve(600)
        with pytest.raises(TooLarge):
            b.engine.admission.reserve(1001)
        held.release()
        held.release()
        b.engine.admission.reserve(1000)


async def test_a_small_call_is_answered_beside_a_bulk_one() -> None:
    async with bench(lambda: Fake(seconds_per_token=2e-5), budget=64) as b:
        bulk = b.ask([[f"w{index}"] * 6 for index in range(3_000)])
        await until(lambda: len(b.batches) > 5)
        waits = []
        for index in range(20):
            before = len(b.batches)
            await b.ask([[f"small{index}"] * 6])
            waits.append(len(b.batches) - before)

        assert not bulk.done()
        assert max(waits) <= 4  # the one that runs, the one given ahead, its own, one more
        await bulk


async def test_a_small_call_waits_for_the_batch_that_runs_and_for_no_other() -> None:
    async with bench(lambda: Fake(seconds_per_token=1e-4), budget=512) as b:  # batches of 51 ms
        bulk = b.ask([[f"w{index}"] * 6 for index in range(3_000)])
        for turn in range(5):
            begun = len(b.batches)
            await until(lambda begun=begun: len(b.batches) > begun + 2)  # type: ignore[misc]
            begun = len(b.batches)
            await b.ask([[f"small{turn}"] * 6])
            own = b.batches[begun]

            assert orjson.dumps([f"small{turn}"] * 6) in own.sentences
            assert own.padded_tokens <= 512 // 16
        bulk.cancel()
        await until(lambda: not b.engine.queued_sentences)


@pytest.mark.parametrize(
    ("seconds_per_token", "given"),
    [(3e-5, 2), (1e-4, 1)],  # batches of 15 ms and of 51
    ids=["short", "long"],
)
async def test_a_worker_has_its_next_full_batch_before_it_is_done_with_a_short_one(
    seconds_per_token: float, given: int
) -> None:
    async with bench(lambda: Fake(seconds_per_token=seconds_per_token), budget=512) as b:
        bulk = b.ask([[f"w{index}"] * 6 for index in range(2_000)])
        await until(lambda: len(b.batches) > 3)
        most = 0
        for turn in range(200):
            if turn % 50 == 0:  # a batch that is short for want of sentences says nothing
                b.ask([[f"small{turn}"] * 6])
            most = max(most, len(b.workers[0]._queue))
            await asyncio.sleep(0.001)

        assert most == given
        bulk.cancel()
        await until(lambda: not b.engine.queued_sentences)


# Nobody waits any more


async def test_what_a_client_that_left_had_queued_is_never_computed() -> None:
    async with bench(lambda: Fake(seconds_per_token=1e-4)) as b:
        sentences = [[f"a{index}"] * 6 for index in range(400)]
        task = b.ask(sentences)
        await until(lambda: bool(b.batches))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        begun = sum(b.computed.values())
        check(await b.ask([["next"]]), [["next"]])

        assert sum(b.computed.values()) <= begun + 1 + 8  # its own, and a batch given ahead
        left = b.count("elmo_cancelled_sentences_total", stage="queued")
        assert left + sum(b.computed.values()) - 1 == 400


async def test_what_another_still_waits_for_is_computed() -> None:
    async with bench(lambda: Fake(seconds_per_token=1e-4)) as b:
        filler = b.ask([[f"f{index}"] * 6 for index in range(40)])
        await until(lambda: bool(b.batches))
        leaves, stays = b.ask([["both"], ["mine"]]), b.ask([["both"]])
        await asyncio.sleep(0)
        leaves.cancel()

        check(await stays, [["both"]])
        await filler
        assert b.computed[orjson.dumps(["mine"])] == 0


async def test_the_dead_are_never_computed() -> None:
    async with bench(lambda: Fake(seconds_per_token=4e-3)) as b:
        before = b.ask([[f"f{index}"] * 6 for index in range(12)])  # batches of 0.26 s and 0.13 s
        await until(lambda: bool(b.batches))
        late = [[f"l{index}"] * 6 for index in range(3)]
        start = time.monotonic()
        with pytest.raises(DeadlineExceeded) as caught:
            await b.ask(late, timeout=0.2)
        seconds = time.monotonic() - start
        await before

        assert 0.19 < seconds < 0.25
        assert "3 of 3 sentences were missing" in caught.value.detail
        assert not {orjson.dumps(sentence) for sentence in late} & b.computed.keys()
        assert b.count("elmo_cancelled_sentences_total", stage="queued") == 3


async def test_what_takes_longer_than_it_may_is_told_so_at_once() -> None:
    async with bench(lambda: Fake(seconds_per_token=1e-3)) as b:
        await b.ask([[f"w{index}"] * 6 for index in range(16)])
        start = time.monotonic()
        with pytest.raises(DeadlineExceeded, match="send fewer sentences"):
            await b.ask([[f"a{index}"] * 6 for index in range(100)], timeout=0.5)

        assert time.monotonic() - start < 0.1
        assert b.computed[orjson.dumps(["a0"] * 6)] == 0


@pytest.mark.parametrize("seconds", [0.0, -1.0])
async def test_time_that_is_over_on_arrival_queues_nothing(seconds: float) -> None:
    async with bench() as b:
        with pytest.raises(DeadlineExceeded):
            await b.ask([["a"]], timeout=seconds)
        await asyncio.sleep(0.01)

        assert not b.batches


# The end


async def test_draining_answers_what_was_admitted_and_nothing_else() -> None:
    async with bench(lambda: Fake(seconds_per_token=1e-4)) as b:
        sentences = [[f"a{index}"] * 6 for index in range(100)]
        task = b.ask(sentences)
        await asyncio.sleep(0)
        drained = asyncio.ensure_future(b.engine.drain(5))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable):
            await b.ask([["late"]])

        assert b.engine.why_not() == "the server is draining"
        assert await drained
        check(await task, sentences)


async def test_draining_gives_up_after_its_time() -> None:
    async with bench(lambda: Fake(seconds_per_token=1e-2)) as b:
        task = b.ask([["a"] * 20])
        await asyncio.sleep(0)

        assert not await b.engine.drain(0.02)
        await task


async def test_an_idle_engine_is_drained_at_once() -> None:
    async with bench() as b:
        assert await b.engine.drain(5)


# Everything at once


@pytest.mark.parametrize("seed", range(3))
async def test_a_storm_leaves_nothing_hanging_and_nothing_wrong(seed: int) -> None:
    source = np.random.default_rng(seed)
    bad = ["x"] * 1_000 + [RAISES, NAN] * 15 + [DIES, HANGS]
    make = lambda: Fake(seconds_per_token=2e-6, memory_tokens=50)  # noqa: E731
    patience = Timeouts(first_batch=0.05, batch=0.05)

    async def client(b: Bench, name: int) -> Counter[str]:
        told: Counter[str] = Counter()
        for turn in range(12):
            count = int(source.integers(0, 12))
            sentences = [[f"{name % 7}-{turn}-{i}", str(source.choice(bad))] for i in range(count)]
            task = b.ask(sentences, timeout=5)
            if source.random() < 0.1:
                await asyncio.sleep(0)
                task.cancel()
            try:
                check(await task, sentences)
                told["answered"] += 1
            except (ServiceError, asyncio.CancelledError) as error:
                told[type(error).__name__] += 1
                if isinstance(error, SentenceFailed):
                    assert any({RAISES, NAN} & set(sentence) for sentence in sentences)
                if isinstance(error, Unavailable):
                    await asyncio.sleep(0.02)
        return told

    async with bench(make, make, patience=patience) as b:
        start = time.monotonic()
        told = sum(await asyncio.gather(*(client(b, name) for name in range(40))), Counter())

        assert sum(told.values()) == 40 * 12
        assert told["answered"] > 100
        assert told["DeadlineExceeded"] == 0
        assert time.monotonic() - start < 8
        await until(lambda: b.engine.why_not() is None)


async def test_a_client_over_its_share_is_refused_and_the_others_are_not() -> None:
    async with bench(lambda: Fake(seconds_per_token=1e-3), client_tokens=100) as b:
        mine = b.ask(made_of("m", 15), client="me")  # 87 tokens
        await until(lambda: bool(b.batches))

        with pytest.raises(ClientOverShare, match=r"87 of its 100 tokens.* 18 more") as refused:
            await b.ask(made_of("n", 4), client="me")
        assert refused.value.retry_after >= 1
        with pytest.raises(TooLarge, match=r"at most 100 .*ELMO_MAX_CLIENT_TOKENS"):
            await b.ask(made_of("n", 30), client="me")
        check(await b.ask(made_of("o", 15), client="other"), made_of("o", 15))
        check(await b.ask(made_of("p", 3), client="me"), made_of("p", 3))
        check(await mine, made_of("m", 15))
        check(await b.ask(made_of("q", 15), client="me"), made_of("q", 15))


async def test_what_a_client_gives_up_is_free_for_it_again() -> None:
    async with bench(lambda: Fake(seconds_per_token=1e-3), client_tokens=100) as b:
        for _ in range(3):
            task = b.ask(made_of("m", 15), client="me")
            await asyncio.sleep(0.02)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        with pytest.raises(DeadlineExceeded):
            await b.ask(made_of("m", 15), client="me", timeout=0.01)
        check(await b.ask(made_of("n", 15), client="me"), made_of("n", 15))
