"""The engine of an HTTP side whose models are on other machines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import replace

from elmo_serve.distributed.messages import EmbedAnswer, EmbedCall
from elmo_serve.distributed.remote_workers import RemoteWorkers, ReplicaLostError, Replicas
from elmo_serve.errors import DeadlineExceeded, ServiceError, Unavailable
from elmo_serve.metrics import Metrics
from elmo_serve.output import Output
from elmo_serve.scheduling.admission import Admission, Limits
from elmo_serve.scheduling.engine import Embedded, until_idle
from elmo_serve.workers.shared_memory import SharedMemoryPool, Vectors, view

_ATTEMPTS = 3
"""Replicas that may be lost under one request before it is answered with 503."""

_GRACE_SECONDS = 2.0
"""Seconds beyond the deadline of a request for the answer of its replica, which has the same
deadline: a lost network must not hold the request for longer."""

_ALIGNMENT = 64  # bytes; the vectors of each sentence start at a multiple


class RemoteEngine:
    """Sends each request whole to one replica; another one gets it when that one is lost.

    The answer depends on the request alone, so it may be computed twice. Bytes of responses and
    tokens of clients are counted here, and each replica has a queue of its own.
    """

    def __init__(
        self,
        workers: Mapping[str, RemoteWorkers],
        replicas: Replicas,
        segments: SharedMemoryPool,
        limits: Limits,
        metrics: Metrics,
    ) -> None:
        self._workers = workers
        self._replicas = replicas
        self._segments = segments
        self._metrics = metrics
        self._default = next(iter(workers))
        self.admission = Admission(
            limits, dict.fromkeys(workers, _UnknownBacklog()), time.monotonic
        )
        self._is_draining = False

    @property
    def models(self) -> Collection[str]:
        """The names of the models."""
        return self._workers.keys()

    def pool_of(self, model: str) -> RemoteWorkers:
        """Return the workers of a model, as this side sees them."""
        return self._workers[model]

    def start(self) -> None:
        """Ask a replica for each model."""
        for workers in self._workers.values():
            workers.start()

    async def stop(self) -> None:
        """Ask no more; the replicas belong to Ray."""
        await asyncio.gather(*(workers.stop() for workers in self._workers.values()))

    async def drain(self, timeout_seconds: float) -> bool:
        """Admit nothing more and wait; return whether all that was admitted was sent in time."""
        self._is_draining = True
        return await until_idle(self.admission, timeout_seconds)

    def why_not(self, model: str | None = None) -> str | None:
        """Return the reason why no request to a model can be answered now; None when it can."""
        if self._is_draining:
            return "the server is draining"
        workers = self._workers[model or self._default]
        return None if workers.is_ready else workers.reason

    async def embed(
        self,
        sentences: Sequence[bytes],
        lengths: Sequence[int],
        output: Output,
        timeout_seconds: float,
        client: str = "",
        model: str | None = None,
        *,
        is_bulk: bool = False,
    ) -> Embedded:
        """Compute the vectors of all sentences, or of none; see `Engine.embed`.

        Raises:
            TooLarge, ClientOverShare, Overloaded, Unavailable: not admitted, here or there; or
                every replica that had the request was lost.
            DeadlineExceeded: the time is over.
            SentenceFailed: the model failed on one of the sentences by itself.
        """
        model = model or self._default
        if (reason := self.why_not(model)) is not None:
            raise Unavailable(f"Not ready: {reason}.", retry_after=1)
        admitted = self.admission.admit(lengths, timeout_seconds, client, model)
        call = EmbedCall(model, sentences, lengths, output, timeout_seconds, is_bulk)
        try:
            embedded = self._embedded(await self._answer(call), output)
        except DeadlineExceeded:
            self._metrics.failures.labels("deadline").inc()
            raise
        finally:
            admitted.close()
        metrics = self._metrics.of(model)
        metrics.sentences.inc(len(sentences))
        metrics.tokens.inc(sum(lengths))
        return embedded

    async def _answer(self, call: EmbedCall) -> EmbedAnswer:
        """Return the answer of a replica that was not lost before it gave one."""
        deadline = time.monotonic() + call.timeout_seconds
        for attempt in range(_ATTEMPTS):
            left = deadline - time.monotonic()
            try:
                async with asyncio.timeout(left + _GRACE_SECONDS):
                    work = self._replicas.embed(replace(call, timeout_seconds=left))
                    answer = await (self._while_up(call.model, work) if attempt else work)
            except ReplicaLostError:
                self._metrics.failures.labels("worker_lost").inc()
                continue
            except TimeoutError:
                raise DeadlineExceeded(
                    f"No replica has answered within {call.timeout_seconds:g} s."
                ) from None
            if isinstance(answer, ServiceError):
                raise answer
            return answer
        raise Unavailable(
            f"{_ATTEMPTS} replicas were lost, one after another, while they had the request.",
            retry_after=1,
        )

    async def _while_up(
        self, model: str, work: Awaitable[EmbedAnswer | ServiceError]
    ) -> EmbedAnswer | ServiceError:
        """Wait for the second attempt of a request, unless no replica is left to make it.

        Raises Unavailable.
        """
        workers = self._workers[model]
        answer = asyncio.ensure_future(work)
        down = asyncio.ensure_future(workers.until_down())
        try:
            await asyncio.wait((answer, down), return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
        finally:
            for task in (answer, down):
                task.cancel()
        raise Unavailable(f"The replica of the request was lost: {workers.reason}.", retry_after=1)

    def _embedded(self, answer: EmbedAnswer, output: Output) -> Embedded:
        """Copy the vectors into shared memory, which JSON workers read.

        Raises Unavailable where there is no memory.
        """
        offsets, size = [], 0
        for array in answer.arrays:
            offsets.append(size)
            size += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        segment, memory = self._segments.acquire(max(size, 1))
        unknown = answer.unknown or [0] * len(offsets)
        vectors = []
        for array, offset, count in zip(answer.arrays, offsets, unknown, strict=True):
            view(memory, offset, array.shape, output.dtype)[...] = array
            vectors.append(Vectors(memory, segment, offset, array.shape, output.dtype, count))
        return Embedded(vectors, answer.queue_seconds, answer.infer_seconds)


class _UnknownBacklog:
    """The queues of the replicas: unknown to the HTTP side, since each refuses by itself."""

    is_measured = False
    seconds_per_token = 0.0

    def tokens_before(self, virtual_time: float) -> float:
        """Return no tokens."""
        return 0.0
