"""The engine: admits requests, queues their sentences, waits for their vectors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from elmo_serve.errors import Unavailable
from elmo_serve.metrics import Metrics
from elmo_serve.processes.arena import Arena, Vectors
from elmo_serve.processes.clock import EVENT_LOOP_CLOCK, Clock
from elmo_serve.scheduling.admission import Admission, Admitted, QueueLimits
from elmo_serve.scheduling.budgets import Budget
from elmo_serve.scheduling.dispatcher import Dispatcher
from elmo_serve.scheduling.fair_queue import FairQueue
from elmo_serve.scheduling.request import Request, Sentences
from elmo_serve.workers.language_results import Wanted
from elmo_serve.workers.pool import WorkerPool

_SLICE = 500
"""Sentences that are queued in one turn of the event loop: one to three milliseconds of it."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of one request, in the order of its sentences, and how long they took."""

    vectors: list[Vectors]
    queue_seconds: float
    infer_seconds: float


class Engine:
    """Computes vectors for many requests at a time: one queue and one worker pool for each model.

    All of it runs on the event loop; the computation is behind the pools. One admission counts the
    requests of all models, and `answers` the bytes of their answers that are not sent yet.
    `default` is the first model.
    """

    def __init__(
        self,
        pools: Mapping[str, WorkerPool],
        arena: Arena,
        limits: QueueLimits,
        metrics: Metrics,
        clock: Clock = EVENT_LOOP_CLOCK,
    ) -> None:
        self._dispatchers = {
            model: Dispatcher(model, pool, arena, metrics, clock) for model, pool in pools.items()
        }
        self.default = next(iter(pools))
        self.admission = Admission(limits, self._dispatchers)
        self.answers = Budget(
            limits.answer_bytes,
            "bytes of answers",
            "ELMO_MAX_ANSWER_BYTES: fewer sentences or layers, or pooling, need less",
            connections=limits.connections,
            on_idle=self._note_idle,
        )
        self._idle = asyncio.Event()
        self._clock = clock
        self._is_draining = False
        metrics.answer_bytes.set_function(lambda: self.answers.used)

    def start(self) -> None:
        """Start the workers; each gets batches once it is ready."""
        for dispatcher in self._dispatchers.values():
            dispatcher.pool.start(dispatcher)

    async def stop(self) -> None:
        """Let every worker end."""
        pools = (dispatcher.pool for dispatcher in self._dispatchers.values())
        await asyncio.gather(*(pool.stop() for pool in pools))

    def pool_of(self, model: str) -> WorkerPool:
        """Return the workers of a model."""
        return self._dispatchers[model].pool

    @property
    def models(self) -> Collection[str]:
        """The names of the models."""
        return self._dispatchers.keys()

    @property
    def queues(self) -> Mapping[str, FairQueue]:
        """The queue of each model."""
        return {model: dispatcher.queue for model, dispatcher in self._dispatchers.items()}

    @property
    def requests(self) -> int:
        """The number of requests that are admitted and not answered."""
        return sum(len(dispatcher.requests) for dispatcher in self._dispatchers.values())

    def unavailable_reason(self, model: str | None = None) -> str | None:
        """Return the reason why no request to a model can be answered now; None when it can."""
        if self._is_draining:
            return "the server is draining"
        pool = self._dispatchers[model or self.default].pool
        return None if pool.is_ready else pool.reason

    def check_unread(self, timeout_seconds: float) -> None:
        """Raise Overloaded where no ready model would answer even the smallest request in time.

        While no model is ready it raises nothing: `embed` does.
        """
        ready = [model for model in self.models if self.unavailable_reason(model) is None]
        self.admission.check_unread(timeout_seconds, ready)

    async def embed(
        self,
        sentences: Sequence[bytes],
        lengths: Sequence[int],
        outputs: Sequence[Wanted],
        timeout_seconds: float,
        client: str = "",
        model: str | None = None,
        *,
        is_bulk: bool = False,
    ) -> Embedded:
        """Compute the vectors of all sentences, or of none.

        The caller ends the call when its time is over; sentences that have not begun then are never
        computed.

        Args:
            sentences: the JSON text of each sentence's tokens.
            lengths: the number of tokens of each sentence.
            outputs: the result to compute of each sentence.
            timeout_seconds: how long the caller waits.
            client: the name that the client's quota is counted under.
            model: the name of the model; None: the first.
            is_bulk: whether interactive requests come first however small this request is. A
                request that is larger than a batch, or asks for anything but vectors, is bulk
                anyway.

        Raises:
            TooLarge, ClientOverShare, Overloaded, Unavailable: not admitted; nothing was queued.
            DeadlineExceeded: the time was over before.
            SentenceFailed: the model failed on one of the sentences by itself.
        """
        model = model or self.default
        self._check_ready(model)
        dispatcher = self._dispatchers[model]
        texts = Sentences(sentences, lengths, outputs)
        admitted = self.admission.admit(texts, timeout_seconds, client, model, is_bulk=is_bulk)
        try:
            request = await self._run(texts, admitted, dispatcher)
        finally:
            admitted.tokens.release()
        if request.error is not None:
            raise request.error
        dispatcher.metrics.tokens.inc(sum(lengths))
        return _embedded(request)

    def _check_ready(self, model: str) -> None:
        """Raise Unavailable where no worker of a model is ready, or the server is draining."""
        if self.unavailable_reason(model) is not None:
            # That of a pool may have a path of the server.
            reason = "the server is draining" if self._is_draining else "none of its workers is up"
            raise Unavailable(f"{model!r} is not ready: {reason}.", retry_after=1)

    async def _run(self, texts: Sentences, admitted: Admitted, dispatcher: Dispatcher) -> Request:
        """Run an admitted request until it has all its results or an error; return it."""
        is_over = asyncio.get_running_loop().create_future()
        request = Request(
            texts,
            admitted.tokens,
            self._clock.now(),
            admitted.virtual_seconds_per_token,
            partial(_resolve, is_over),
            admitted.is_bulk,
        )
        dispatcher.begin(request)
        try:
            await self._enqueue(request, dispatcher)
            await is_over
        finally:
            request.end()
            dispatcher.end(request)
            self._note_idle()
        return request

    async def _enqueue(self, request: Request, dispatcher: Dispatcher) -> None:
        """Queue the sentences, a slice in each turn of the event loop, unless one fails."""
        if not request.missing:
            request.finish(request.arrived_at)
        jobs = request.jobs()
        for start in range(0, len(request.sentences.computed), _SLICE):
            if start:
                await asyncio.sleep(0)
            if request.is_over:
                return
            dispatcher.add(islice(jobs, _SLICE))

    async def drain(self, timeout_seconds: float) -> bool:
        """Admit nothing more and wait; return whether all that was admitted was sent in time.

        When the time is over, the rest fails with Unavailable and the workers are killed.
        """
        self._is_draining = True
        self._idle.clear()
        self._note_idle()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), timeout_seconds)
        if self._idle.is_set():
            return True
        for dispatcher in self._dispatchers.values():
            for request in list(dispatcher.requests):
                reason = "The server stops; the drain time is over."
                request.fail(Unavailable(reason, retry_after=1))
            dispatcher.pool.kill()
        return False

    def _note_idle(self) -> None:
        if not self.requests and not self.answers.used:
            self._idle.set()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():  # it is cancelled when the client leaves
        future.set_result(None)


def _embedded(request: Request) -> Embedded:
    """Return the results of a request that has all of them."""
    started_at = request.finished_at if request.started_at is None else request.started_at
    results = (request.results[place] for place in request.sentences.places)
    return Embedded(
        [vectors for vectors in results if vectors is not None],
        queue_seconds=started_at - request.arrived_at,
        infer_seconds=request.finished_at - started_at,
    )
