"""The engine of one model in one replica: its queue and its workers, without HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from elmo_model.word_vectors.cache import map_folder
from elmo_model.word_vectors.source import WordVectorsError
from elmo_serve.distributed.located import located
from elmo_serve.distributed.messages import (
    EmbedAnswer,
    EmbedCall,
    LoadFault,
    ModelDescription,
    ModelPlace,
)
from elmo_serve.errors import ServiceError, Unavailable
from elmo_serve.metrics import Metrics
from elmo_serve.model_cache import DownloadError, cache_settings
from elmo_serve.model_specs import ModelSpec
from elmo_serve.scheduling.admission import Limits
from elmo_serve.scheduling.engine import Engine
from elmo_serve.settings import Settings, SettingsError
from elmo_serve.workers.devices import Hardware
from elmo_serve.workers.pool import WorkerPool
from elmo_serve.workers.shared_memory import SharedMemoryPool
from elmo_serve.workers.specs import MakeWorker, worker_specs


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a machine that a replica may use: its devices, and cores of the CPU."""

    hardware: Hardware
    cores: int


class ReplicaEngine:
    """An `Engine` for one model. Its errors are return values, since they cross processes."""

    def __init__(
        self,
        spec: ModelSpec,
        settings: Settings,
        share: Share,
        make_worker: MakeWorker | None = None,
    ) -> None:
        segments, metrics = SharedMemoryPool(), Metrics()
        workers = worker_specs(
            spec, settings, segments, share.hardware, make_worker, cores=share.cores
        )
        self._pool = WorkerPool(workers, metrics)
        # The HTTP side counts the tokens of each client and the bytes of responses.
        limits = Limits(settings.max_queue_tokens, settings.max_answer_bytes)
        self._engine = Engine({spec.name: self._pool}, segments, limits, metrics)
        self._drain_seconds = settings.drain_timeout_seconds

    @classmethod
    async def open(
        cls,
        spec: ModelSpec,
        settings: Settings,
        share: Share,
        make_worker: MakeWorker | None = None,
    ) -> ReplicaEngine | LoadFault:
        """Find the model on this machine, or download it, and wait for the first worker."""
        try:
            spec, settings = await asyncio.to_thread(_located, spec, settings)
        except (DownloadError, SettingsError, WordVectorsError, OSError) as error:
            return LoadFault(str(error))
        engine = cls(spec, settings, share, make_worker)
        engine._engine.start()
        try:
            fault = await engine._pool.first_outcome()
        except asyncio.CancelledError:
            await engine.stop()  # nobody else can end its workers
            raise
        if fault is not None:
            await engine.stop()
            return LoadFault(fault)
        return engine

    @property
    def outstanding_tokens(self) -> int:
        """Tokens that wait or run, boundaries included."""
        return self._engine.admission.outstanding

    @property
    def fault(self) -> str | None:
        """The reason why no worker can recover without a restart of the replica; None for none."""
        return None if self._pool.is_fit else self._pool.reason

    def describe(self) -> ModelDescription | Unavailable:
        """Return the model and its places; the reason while no worker can answer."""
        reason = self._engine.why_not()
        if reason is not None or self._pool.info is None:
            return Unavailable(f"Not ready: {reason}.", retry_after=1)
        places = [ModelPlace(slot.device, slot.budget) for slot in self._pool.slots]
        return ModelDescription(self._pool.info, places)

    async def embed(self, call: EmbedCall) -> EmbedAnswer | ServiceError:
        """Compute the vectors of all sentences, or of none."""
        try:
            embedded = await self._engine.embed(
                call.sentences,
                call.lengths,
                call.output,
                call.timeout_seconds,
                is_bulk=call.is_bulk,
            )
        except ServiceError as error:
            return error
        unknown = [each.unknown for each in embedded.vectors] if call.output.appended else []
        return EmbedAnswer(
            [each.numpy() for each in embedded.vectors],
            unknown,
            embedded.queue_seconds,
            embedded.infer_seconds,
        )

    async def stop(self) -> None:
        """Answer what was admitted, within the drain time, and end the workers."""
        await self._engine.drain(self._drain_seconds)
        await self._engine.stop()


def _located(spec: ModelSpec, settings: Settings) -> tuple[ModelSpec, Settings]:
    """Return the model and the settings with the paths of this machine's files.

    Raises:
        DownloadError: a published model cannot be fetched.
        SettingsError, WordVectorsError, OSError: see `cache_settings` and `map_folder`.
    """
    if settings.word_vectors is not None:
        folder = map_folder(settings.word_vectors, cache_settings(settings).cache)
        settings = settings.model_copy(update={"word_vectors": folder})
    source = located(spec.source, lambda: cache_settings(settings))
    return replace(spec, source=source), settings
