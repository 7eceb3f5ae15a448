"""The parts of a server, put together from its settings."""

from __future__ import annotations

from collections.abc import Callable

from elmo_serve.http.load_shedding import Door
from elmo_serve.http.state import Server
from elmo_serve.metrics import Metrics
from elmo_serve.scheduling.admission import Limits
from elmo_serve.scheduling.engine import Engine
from elmo_serve.scheduling.request import DEFAULT_MODEL
from elmo_serve.settings import Settings
from elmo_serve.workers import devices
from elmo_serve.workers.json_pool import JsonWorkerPool
from elmo_serve.workers.messages import RunnerSettings, Worker
from elmo_serve.workers.pool import WorkerPool
from elmo_serve.workers.process import ProcessWorker
from elmo_serve.workers.shared_memory import SharedMemoryPool
from elmo_serve.workers.thread import ThreadWorker
from elmo_serve.workers.worker_slot import WorkerSpec

MakeWorker = Callable[[RunnerSettings, SharedMemoryPool], Worker]


def assemble(settings: Settings, metrics: Metrics, make_worker: MakeWorker | None) -> Server:
    """Return a server whose processes are not started yet."""
    segments = SharedMemoryPool()
    limits = Limits(
        settings.max_queue_tokens, settings.max_answer_bytes, settings.max_client_tokens
    )
    make = make_worker or _makers[settings.worker]
    pool = WorkerPool(_plans(settings, segments, make), metrics)
    engine = Engine({DEFAULT_MODEL: pool}, segments, limits, metrics)
    metrics.watch(
        "queue_sentences", "Sentences that wait for a worker.", lambda: engine.queued_sentences
    )
    metrics.watch(
        "queue_tokens", "Their tokens, boundaries included.", lambda: engine.queued_tokens
    )
    metrics.watch(
        "answer_bytes",
        "Bytes of answers admitted and not yet sent.",
        lambda: engine.admission.reserved_bytes,
    )
    door = Door(
        engine.admission,
        metrics,
        timeout_seconds=settings.request_timeout_seconds,
        body_bytes=settings.max_body_bytes,
    )
    writers = JsonWorkerPool(settings.json_workers, segments, metrics)
    return Server(settings, metrics, engine, writers, door)


def _plans(settings: Settings, segments: SharedMemoryPool, make: MakeWorker) -> list[WorkerSpec]:
    names = devices.available() if settings.devices == "auto" else settings.devices
    cpu_workers = sum(name == "cpu" for name in names) * settings.workers_per_device
    plans = []
    for name in names:
        runner = RunnerSettings(
            model=settings.model,
            device=name,
            precision=settings.precision,
            token_cache_size=settings.token_cache_size,
            gate_cache_bytes=settings.gate_cache_bytes,
            cuda_graphs=settings.cuda_graphs,
            threads=max(1, devices.cores() // cpu_workers) if name == "cpu" else 1,
            warm_up_tokens=settings.batch_tokens(name),
            log_level=settings.log_level,
            log_format=settings.log_format,
        )
        plan = WorkerSpec(name, settings.batch_tokens(name), _bind(make, runner, segments))
        plans += [plan] * settings.workers_per_device
    return plans


def _bind(
    make: MakeWorker, runner: RunnerSettings, segments: SharedMemoryPool
) -> Callable[[], Worker]:
    return lambda: make(runner, segments)


_makers: dict[str, MakeWorker] = {
    "process": ProcessWorker,
    "thread": ThreadWorker,
}
