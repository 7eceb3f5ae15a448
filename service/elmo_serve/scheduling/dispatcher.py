"""The dispatcher of one model: compose a batch when a worker is free, run it, answer its jobs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from elmo_serve.errors import SentenceFailed, Unavailable
from elmo_serve.metrics import Metrics
from elmo_serve.processes.arena import Arena
from elmo_serve.processes.clock import Clock, Timer
from elmo_serve.scheduling.fair_queue import MAX_SENTENCES, FairQueue
from elmo_serve.scheduling.request import Request, RunningBatch, SentenceJob, halves
from elmo_serve.scheduling.throughput import Backlog, ThroughputEstimate
from elmo_serve.selection import Output
from elmo_serve.workers.messages import Batch, Done, Drop, Failed, Ready
from elmo_serve.workers.pool import WorkerPool, WorkerSlot

_log = logging.getLogger("elmo_serve.engine")

SHORTEST_WAIT_SECONDS = 0.001  # the resolution of the event loop's timers

_SHORTAGE_SECONDS = 0.1
"""Pause after a batch for which there was no shared memory. Meanwhile answers are sent and free
theirs. A longer pause leaves workers idle, a shorter one fails more requests."""


class Dispatcher:
    """Gives batches of one model's queue to its workers and their results to the requests.

    Three events move it: requests are queued, a worker becomes ready, a batch comes back.
    """

    def __init__(
        self,
        model: str,
        pool: WorkerPool,
        arena: Arena,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self.model = model
        self.pool = pool
        self.queue = FairQueue()
        self.throughput = ThroughputEstimate(clock.now)
        self._arena = arena
        self._failures = metrics.failures
        self._batch_duration = metrics.batch_duration
        self.metrics = metrics.of(model)
        self.requests: dict[Request, None] = {}  # admitted and not over, in their order
        self._clock = clock
        self._running: dict[int, RunningBatch] = {}  # by the id of the batch
        self._last_batch = 0
        self._is_scheduled = False
        self._timer: Timer | None = None
        metrics.queue_sentences.labels(model).set_function(lambda: self.queue.sentences)
        metrics.queue_tokens.labels(model).set_function(lambda: self.queue.tokens)

    def begin(self, request: Request) -> None:
        """Count a request as one that waits until `end`."""
        self.requests[request] = None

    def end(self, request: Request) -> None:
        """Forget a request that has ended, and drop its sentences that are not answered."""
        del self.requests[request]
        if request.missing:
            self._withdraw(request)

    def add(self, jobs: Iterable[SentenceJob]) -> None:
        """Queue jobs of a request.

        They are dispatched after the current turn of the event loop, so that requests which arrive
        together share a batch.
        """
        self.queue.add(jobs)
        self._schedule()

    def _withdraw(self, request: Request) -> None:
        """Drop the sentences of an ended request from the queue and from batches that run."""
        self.metrics.cancelled_queued.inc(self.queue.withdraw(request))
        for slot in self.pool.slots:
            for batch in slot.tasks:
                jobs = enumerate(self._running[batch.id].jobs)
                dropped = tuple(index for index, job in jobs if job.request is request)
                if dropped:
                    slot.child.send(Drop(batch.id, dropped))
                    self.metrics.cancelled_running.inc(len(dropped))

    # What admission asks

    @property
    def seconds_per_token(self) -> float:
        """The seconds that all ready workers together take for a token."""
        return self.throughput.seconds_per_token / max(self.pool.ready_count, 1)

    @property
    def best_seconds_per_token(self) -> float:
        """The least that all workers together took for a token; 0 without a recent measurement."""
        return self.throughput.best_seconds_per_token / max(len(self.pool.slots), 1)

    @property
    def backlog(self) -> Backlog:
        """The work that is queued or runs. Of a batch that runs, the rest counts."""
        pace, workers = self.throughput.seconds_per_token, max(self.pool.ready_count, 1)
        interactive = pace * (self.queue.tokens - self.queue.bulk_tokens)
        running_bulk = 0.0
        for slot in self.pool.slots:
            for batch, passed in slot.progress():
                running = self._running[batch.id]
                left = max(0.0, pace * running.work - passed)
                if running.is_bulk:
                    running_bulk += left
                else:
                    interactive += left
        bulk = running_bulk + pace * self.queue.bulk_tokens
        due = running_bulk + pace * self.queue.due_tokens
        return Backlog(interactive / workers, bulk / workers, due / workers)

    # Schedule and run

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._clock.call_later(0.0, self._dispatch)
            self._is_scheduled = True

    def _dispatch(self) -> None:
        """Give batches to workers that have room, and interactive ones to those that run bulk."""
        self._is_scheduled = False
        while (slot := self.pool.free(self.queue.tokens)) is not None:
            jobs = self.queue.next_batch(slot.budget)
            if not jobs:
                return
            if not self._run(jobs, slot):
                self._look_again_in(_SHORTAGE_SECONDS)
                return
        self._look_again_in(self._interrupt())

    def _interrupt(self) -> float | None:
        """Give interactive sentences to workers that are busy with bulk.

        Bulk keeps at least half of a worker: after an interruption its batch runs as long as that
        took. Returns the seconds until that is over; None if nothing is to be waited for.
        """
        waits = []
        for slot in self.pool.slots:
            if not self.queue.interactive_sentences:
                break
            if slot.running is None or not self._running[slot.running.id].is_bulk:
                continue
            if wait := slot.interruptible_in:
                waits.append(max(wait, SHORTEST_WAIT_SECONDS))
            elif urgent := self.queue.next_interactive(slot.budget):
                self._run(urgent, slot, is_urgent=True)
        return min(waits, default=None)

    def _look_again_in(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self._clock.call_later(seconds, self._dispatch)

    def _run(self, jobs: list[SentenceJob], slot: WorkerSlot, *, is_urgent: bool = False) -> bool:
        """Give a worker a batch of these jobs; return whether there was memory for its results."""
        info = self.pool.info
        assert info is not None, "a worker that is ready has reported its model"
        self._last_batch += 1
        try:
            running = RunningBatch.of(
                jobs, self._last_batch, info.dimension, self._arena, is_urgent=is_urgent
            )
        except Unavailable as error:
            self._fail(jobs, error.detail, retry_after=error.retry_after)
            return False
        batch, now = running.batch, self._clock.now()
        for job in jobs:
            if job.request.start(now):
                self.metrics.queue_wait.observe(now - job.request.arrived_at)
        self.metrics.batch_tokens.observe(batch.tokens)
        self._running[batch.id] = running
        self.pool.submit(batch, slot)
        return True

    # Answer

    def on_ready(self, ready: Ready) -> None:
        """Give the worker a batch."""
        self.throughput.start_from(ready.warm_up.seconds_per_token)
        self._schedule()

    def on_done(self, batch: Batch, done: Done, slot: WorkerSlot) -> None:
        """Answer the jobs of a batch, after the worker, which is idle now, has its next one."""
        running = self._running.pop(batch.id)
        # A worker may stop a batch early whose jobs are not all wanted.
        if all(job.is_wanted and isinstance(job.output, Output) for job in running.jobs):
            fullness = max(batch.padded_tokens / slot.budget, len(running.jobs) / MAX_SENTENCES)
            self.throughput.add(batch.tokens, slot.seconds, fullness=fullness)
        try:
            self._dispatch()
        finally:  # a fault of the next batch must not lose the results of this one
            self._answer(running, done, slot)

    def _answer(self, running: RunningBatch, done: Done, slot: WorkerSlot) -> None:
        self._batch_duration.labels(self.model, slot.labels["device"]).observe(slot.seconds)
        self.metrics.token_cache_hits.inc(done.cache_hits)
        self.metrics.token_cache_misses.inc(done.cache_misses)
        broken, now = set(done.not_finite), self._clock.now()
        for index, job in enumerate(running.jobs):
            if index in broken:
                self._failures.labels("not_finite").inc()
                self._fail_sentence(job, "The model's vectors for this sentence are not finite.")
            else:
                job.request.answer(job, running.vectors(index), now)

    def on_failed(self, batch: Batch, failed: Failed, slot: WorkerSlot) -> None:
        """Run the halves of a batch that raised, until the sentence that raises is alone."""
        running = self._running.pop(batch.id)
        jobs = list(running.jobs)
        if len(jobs) > 1:
            _log.warning(
                "batch failed, running its halves",
                extra={**slot.labels, "sentences": len(jobs), "reason": failed.reason},
            )
            self.queue.retry(*halves(jobs))
        else:
            _log.error(
                "sentence failed",
                extra={**slot.labels, "tokens": jobs[0].tokens, "reason": failed.reason},
            )
            self._failures.labels("memory" if failed.memory else "sentence").inc()
            if failed.memory:
                self._fail(jobs, "The device has no memory for this sentence.", retry_after=5)
            else:
                self._fail_sentence(jobs[0], "The model failed on this sentence.")
        self._dispatch()

    def on_lost(self, running: Batch | None, waiting: Sequence[Batch], reason: str) -> None:
        """Run the batches of a worker that is gone on another one.

        The batch that was `running` may have killed the worker. It runs again once at most, and
        only if another worker is ready. The batches that were `waiting` had not begun.
        """
        batches = [list(self._running.pop(batch.id).jobs) for batch in waiting]
        if running is not None:
            jobs = list(self._running.pop(running.id).jobs)
            if self.pool.is_ready and not any(job.was_lost for job in jobs):
                for job in jobs:
                    job.was_lost = True
                batches.insert(0, jobs)
            else:
                self.metrics.cancelled_lost.inc(len(jobs))
                self._fail(jobs, f"The worker was lost: {reason}.", retry_after=1)
        self.queue.retry(*batches)
        self._schedule()

    def _fail(self, jobs: Sequence[SentenceJob], detail: str, *, retry_after: float) -> None:
        """Fail the requests of these jobs with 503."""
        for job in jobs:
            job.request.fail(Unavailable(detail, retry_after=retry_after))

    def _fail_sentence(self, job: SentenceJob, detail: str) -> None:
        """Fail the request of a job with the number of its sentence."""
        job.request.fail(SentenceFailed(detail, job.index))
