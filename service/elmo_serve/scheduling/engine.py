"""The worker queue: admit, cut a batch when a worker is free, answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from elmo_serve.errors import (
    DeadlineExceeded,
    FieldError,
    SentenceFailed,
    Unavailable,
    pointer,
)
from elmo_serve.metrics import Metrics
from elmo_serve.output import Output
from elmo_serve.scheduling.admission import Admission, Limits
from elmo_serve.scheduling.fair_queue import Batcher
from elmo_serve.scheduling.request import Job, Request
from elmo_serve.scheduling.throughput import Rate
from elmo_serve.workers.messages import Batch, Done, Failed, ModelInfo, Ready
from elmo_serve.workers.pool import WorkerPool
from elmo_serve.workers.shared_memory import Bytes, SharedMemoryPool, Vectors
from elmo_serve.workers.worker_slot import WorkerSlot

_log = logging.getLogger("elmo_serve.engine")

_ALIGNMENT = 64
_SLICE = 500  # sentences admitted before the event loop gets its turn
_MOST_ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class Embedded:
    """The answer to one call, in the order of its sentences."""

    vectors: list[Vectors]
    queue_seconds: float
    infer_seconds: float


@dataclass(slots=True, eq=False)
class _Running:
    """A batch with a worker, and the jobs and the memory it will be answered from."""

    jobs: list[Job]
    array: Bytes
    shapes: list[tuple[int, ...]]


class Engine:
    """Turns sentences into vectors, many calls at a time.

    Everything happens on the event loop; what runs elsewhere is behind the pool. Three events move
    it: sentences are admitted, a worker becomes free, a batch comes back.
    """

    def __init__(
        self,
        pool: WorkerPool,
        segments: SharedMemoryPool,
        limits: Limits,
        metrics: Metrics,
    ) -> None:
        self.pool = pool
        self._segments = segments
        self._metrics = metrics
        self._batcher = Batcher()
        self._rate = Rate()
        self.admission = Admission(limits, self.pool, self._batcher, self._rate, metrics)
        self._again: deque[list[Job]] = deque()  # batches to run as they are: halves and replays
        self._running: dict[int, _Running] = {}
        self._same: dict[Output, dict[bytes, Job]] = {}  # by what is wanted of which sentence
        self._last_batch = 0
        self._drained = asyncio.Event()
        self._is_draining = False
        self._is_scheduled = False
        self._later: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the workers and give them batches from now on."""
        self.pool.start(self)

    # What the service asks

    @property
    def info(self) -> ModelInfo | None:
        """The model, once a worker has loaded it."""
        return self.pool.info

    @property
    def queued_sentences(self) -> int:
        """Sentences that wait for a worker."""
        return len(self._batcher) + sum(map(len, self._again))

    @property
    def queued_tokens(self) -> int:
        """Their tokens, boundaries included."""
        return self._batcher.tokens + sum(job.cost for jobs in self._again for job in jobs)

    def why_not(self) -> str | None:
        """Say why no request can be answered now; None when it can."""
        if self._is_draining:
            return "the server is draining"
        if not self.pool.is_ready:
            return self.pool.reason
        return None

    async def embed(
        self,
        sentences: Sequence[bytes],
        lengths: Sequence[int],
        output: Output,
        timeout_seconds: float,
        client: str = "",
    ) -> Embedded:
        """Compute the vectors of some sentences, all or none.

        Args:
            sentences: each the JSON text of its tokens.
            lengths: tokens of each.
            output: what is wanted of every one of them.
            timeout_seconds: after this, what has not been computed never is.
            client: whose call it is, of those that share the queue.

        Raises:
            TooLarge, ClientOverShare, Overloaded, Unavailable: not admitted; nothing was queued.
            DeadlineExceeded: the time is over.
            SentenceFailed: a sentence made the model fail, by itself.
        """
        if (reason := self.why_not()) is not None:
            raise Unavailable(f"Not ready: {reason}.", retry_after=1)
        call = self.admission.admit(lengths, timeout_seconds, client)
        future = asyncio.get_running_loop().create_future()
        request = Request([None] * len(sentences), future, len(sentences), call.cost)
        jobs: list[Job] = []
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._enqueue(request, sentences, lengths, output, call.pace, jobs)
                await request.future
        except TimeoutError:
            self._metrics.failures.labels("deadline").inc()
            raise DeadlineExceeded(
                f"Not answered within {timeout_seconds:g} s; {request.missing} of "
                f"{len(sentences)} sentences were missing."
            ) from None
        finally:
            self.admission.end(call, request.outstanding)
            if request.missing:
                self._abandon(request, jobs)
            if self._is_draining and not self.admission.calls:
                self._drained.set()
        self._metrics.sentences.inc(len(sentences))
        self._metrics.tokens.inc(sum(lengths))
        vectors = [answer for answer in request.answers if answer is not None]
        started = request.started or request.finished
        return Embedded(vectors, started - request.admitted, request.finished - started)

    async def drain(self, timeout_seconds: float) -> bool:
        """Admit nothing more and wait for what was admitted; say whether all of it was answered."""
        self._is_draining = True
        if self.admission.calls:
            try:
                await asyncio.wait_for(self._drained.wait(), timeout_seconds)
            except TimeoutError:
                return False
        return True

    async def _enqueue(
        self,
        request: Request,
        sentences: Sequence[bytes],
        lengths: Sequence[int],
        output: Output,
        pace: float,
        jobs: list[Job],
    ) -> None:
        rank, cost = request.admitted, request.outstanding
        for start in range(0, len(sentences), _SLICE):
            same = self._same.setdefault(output, {})
            new = []
            for index in range(start, min(start + _SLICE, len(sentences))):
                sentence = sentences[index]
                job = same.get(sentence)
                if job is None:
                    job = Job(sentence, output, lengths[index], rank, [], call=cost)
                    same[sentence] = job
                    new.append(job)
                elif job.is_queued and rank < job.rank:
                    self._batcher.advance(job, rank)
                job.call = min(job.call, cost)
                job.waiting.append((request, index))
                jobs.append(job)
                rank += pace * job.cost
            self._batcher.add(new)
            self._schedule()
            if len(sentences) > start + _SLICE:
                await asyncio.sleep(0)
        if not sentences:
            request.finished = request.admitted
            request.future.set_result(None)

    def _abandon(self, request: Request, jobs: list[Job], start: int = 0) -> None:
        """Take a request off its jobs; those that nobody else waits for are never computed.

        Some at once, the rest in the next turns of the event loop.
        """
        end = start + _SLICE
        if end < len(jobs):
            asyncio.get_running_loop().call_soon(self._abandon, request, jobs, end)
        queued = running = 0
        for index, job in enumerate(jobs[start:end], start):
            if request.answers[index] is not None or not job.waiting:
                continue
            job.waiting = [waiter for waiter in job.waiting if waiter[0] is not request]
            if job.waiting:
                continue
            if job.is_queued:
                self._batcher.remove(job)
                self._forget(job)
                queued += 1
            else:
                running += 1
        self._metrics.cancelled_sentences.labels("queued").inc(queued)
        self._metrics.cancelled_sentences.labels("running").inc(running)

    # Scheduling

    def _schedule(self) -> None:
        """Look for work once this turn of the event loop is over, so that calls join a batch."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._is_scheduled = False
        while (slot := self.pool.free(self.queued_tokens)) is not None:
            jobs = self._next_jobs(slot)
            if not jobs:
                return
            slot.submit(self._batch(jobs, slot))
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if (seconds := self.pool.free_in(self.queued_tokens)) is not None:
            self._later = asyncio.get_running_loop().call_later(seconds, self._dispatch)

    def _next_jobs(self, slot: WorkerSlot) -> list[Job]:
        while self._again:
            jobs = []
            for job in self._again.popleft():
                if job.waiting:
                    jobs.append(job)
                else:
                    self._forget(job)
            if jobs:
                return self._fitting(jobs, slot.budget)
        jobs = self._batcher.next_batch(slot.budget)
        for job in jobs:
            job.is_queued = False
        return jobs

    def _fitting(self, jobs: list[Job], budget: int) -> list[Job]:
        """Return as many as fit a budget that may be smaller than the one they were cut by."""
        while len(jobs) > 1 and _padded(jobs) > budget:
            first, second = _halves(jobs)
            self._again.appendleft(second)
            jobs = first
        return jobs

    def _batch(self, jobs: list[Job], slot: WorkerSlot) -> Batch:
        info = slot.info
        assert info is not None
        now = time.monotonic()
        offsets, shapes, size = [], [], 0
        for job in jobs:
            offsets.append(size)
            shapes.append(job.output.shape(job.tokens, info.dimension))
            size += -(-job.output.size(job.tokens, info.dimension) // _ALIGNMENT) * _ALIGNMENT
            for request, _ in job.waiting:
                self._metrics.queue_wait.observe(now - request.admitted)
                request.start(now)
        segment, array = self._segments.acquire(max(size, _ALIGNMENT))
        self._last_batch += 1
        tokens = sum(job.cost for job in jobs)
        padded = _padded(jobs)
        self._metrics.batch_sentences.observe(len(jobs))
        self._metrics.batch_tokens.observe(tokens)
        self._metrics.batch_padding.observe(1 - tokens / padded)
        self._running[self._last_batch] = _Running(jobs, array, shapes)
        return Batch(
            id=self._last_batch,
            sentences=tuple(job.sentence for job in jobs),
            outputs=tuple(job.output for job in jobs),
            offsets=tuple(offsets),
            tokens=tokens,
            padded_tokens=padded,
            segment=segment,
        )

    # What workers report

    def on_ready(self, ready: Ready) -> None:
        """Take up the work again."""
        self._rate.start_from(ready.seconds_per_token)
        self._schedule()

    def on_done(self, batch: Batch, done: Done, slot: WorkerSlot) -> None:
        """Answer the jobs of a batch."""
        running = self._running.pop(batch.id)
        self._dispatch()  # first of all: until then the worker has nothing to do
        self._metrics.batch_duration.labels(slot.device).observe(done.seconds)
        self._metrics.token_cache_hits.inc(done.cache_hits)
        self._metrics.token_cache_misses.inc(done.cache_misses)
        self._rate.add(batch, slot.seconds, slot.budget)
        broken = set(done.not_finite)
        for index, (job, shape) in enumerate(zip(running.jobs, running.shapes, strict=True)):
            self._forget(job)
            if index in broken:
                self._metrics.failures.labels("not_finite").inc()
                _fail_sentence(job, "The model's vectors for this sentence are not finite.")
            else:
                self.admission.answered(job.cost * len(job.waiting))
                job.answer(
                    Vectors(
                        running.array,
                        batch.segment,
                        batch.offsets[index],
                        shape,
                        job.output.dtype,
                    )
                )

    def on_failed(self, batch: Batch, failed: Failed, slot: WorkerSlot) -> None:
        """Run the halves of a batch that raised, until what fails is a sentence by itself."""
        jobs = self._running.pop(batch.id).jobs
        reason = "memory" if failed.memory else "sentence"
        if len(jobs) == 1:
            self._metrics.failures.labels(reason).inc()
            _log.error(
                "sentence failed",
                extra={"device": slot.device, "tokens": jobs[0].tokens, "reason": failed.reason},
            )
            self._forget(jobs[0])
            if failed.memory:
                jobs[0].fail(
                    Unavailable("The device has no memory for this sentence.", retry_after=5)
                )
            else:
                _fail_sentence(jobs[0], "The model failed on this sentence.")
        else:
            _log.warning(
                "batch failed, running its halves",
                extra={"device": slot.device, "sentences": len(jobs), "reason": failed.reason},
            )
            self._again.extendleft(reversed(_halves(jobs)))
        self._dispatch()

    def on_lost(self, running: Batch | None, waiting: Sequence[Batch], reason: str) -> None:
        """Replay the batches of a worker that is gone.

        What it had not begun is simply queued again. What it was running may be what killed it, so
        that is tried once more at most, and only where another worker stands ready.
        """
        for batch in reversed(waiting):
            self._again.appendleft(self._running.pop(batch.id).jobs)
        if running is not None:
            jobs = self._running.pop(running.id).jobs
            for job in jobs:
                job.attempts += 1
            if self.pool.is_ready and all(job.attempts < _MOST_ATTEMPTS for job in jobs):
                self._again.appendleft(jobs)
            else:
                self._metrics.failures.labels("worker_lost").inc(len(jobs))
                for job in jobs:
                    self._forget(job)
                    job.fail(Unavailable(f"The worker was lost: {reason}.", retry_after=1))
        self._schedule()

    def _forget(self, job: Job) -> None:
        same = self._same.get(job.output)
        if same is None:
            return
        same.pop(job.sentence, None)
        if not same:
            del self._same[job.output]


def _padded(jobs: list[Job]) -> int:
    return max(job.cost for job in jobs) * len(jobs)


def _halves(jobs: list[Job]) -> tuple[list[Job], list[Job]]:
    middle = len(jobs) // 2
    return jobs[:middle], jobs[middle:]


def _fail_sentence(job: Job, detail: str) -> None:
    """Give every call that waits its own error, pointing to its own sentence."""
    for request, index in job.waiting:
        request.fail(
            SentenceFailed(detail, errors=[FieldError(pointer("sentences", index), detail)])
        )
    job.waiting.clear()
