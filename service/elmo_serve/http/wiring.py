"""The parts of a server, put together from its settings."""

from collections.abc import Callable
from functools import partial
from typing import Final

from elmo_serve.http.load_shedding import LoadShedder
from elmo_serve.http.request.body import ReceivingBudget
from elmo_serve.http.request.metrics import RequestMetrics
from elmo_serve.http.served_models import ServedModel, ServedModels
from elmo_serve.http.state import Server
from elmo_serve.jobs.bulk_queue import bulk_queue
from elmo_serve.jobs.fit_jobs import FitJobs
from elmo_serve.jobs.fit_parser import FitParser
from elmo_serve.jobs.job_limits import JobLimits
from elmo_serve.metrics import Metrics
from elmo_serve.model_specs import ModelSpec
from elmo_serve.neighbours.model_index import ModelIndex
from elmo_serve.scheduling.admission import Limits
from elmo_serve.scheduling.engine import Engine
from elmo_serve.settings import Settings
from elmo_serve.workers import devices
from elmo_serve.workers.absent_worker import AbsentWorker
from elmo_serve.workers.devices import Hardware
from elmo_serve.workers.json_pool import JsonWorkerPool
from elmo_serve.workers.messages import RunnerSettings, Worker
from elmo_serve.workers.pool import WorkerPool
from elmo_serve.workers.process_worker import ProcessWorker
from elmo_serve.workers.shared_memory import SharedMemoryPool
from elmo_serve.workers.text_pool import TextWorkerPool
from elmo_serve.workers.thread_worker import ThreadWorker
from elmo_serve.workers.watchdog import Timeouts
from elmo_serve.workers.worker_slot import WorkerSpec

MakeWorker = Callable[[RunnerSettings, SharedMemoryPool], Worker]

_TIMEOUTS: Final = Timeouts()


def assemble(
    settings: Settings,
    make_worker: MakeWorker | None = None,
    timeouts: Timeouts = _TIMEOUTS,
    hardware: Hardware | None = None,
) -> Server:
    """Return a server whose processes are not started yet.

    `make_worker` makes workers other than those that the settings name; `timeouts` say when one of
    them counts as hung. `hardware` is by default that of this machine.
    """
    metrics = Metrics()
    segments = SharedMemoryPool()
    limits = Limits(
        settings.max_queue_tokens, settings.max_answer_bytes, settings.max_client_tokens
    )
    make = make_worker or _makers[settings.worker]
    hardware = hardware or Hardware.here()
    pools = {
        spec.name: WorkerPool(_workers(spec, settings, segments, make, timeouts, hardware), metrics)
        for spec in settings.specs
    }
    engine = Engine(pools, segments, limits, metrics)
    models = [
        ServedModel(spec, pools[spec.name], engine, _index(spec.name, settings, engine))
        for spec in settings.specs
    ]
    server = Server(
        settings=settings,
        metrics=metrics,
        engine=engine,
        models=ServedModels(models),
        json_workers=JsonWorkerPool(settings.json_workers, segments, metrics),
        fit_parser=FitParser(segments, metrics),
        jobs=FitJobs(_job_limits(settings), metrics),
        text_workers=TextWorkerPool(settings.text_workers, segments, metrics),
        load_shedder=LoadShedder(
            engine,
            timeout_seconds=settings.request_timeout_seconds,
            body_bytes=settings.max_body_bytes,
        ),
        receiving=ReceivingBudget(settings.max_receiving_bytes),
        request_metrics=RequestMetrics(metrics),
    )
    _watch(server, segments)
    return server


def _index(model: str, settings: Settings, engine: Engine) -> ModelIndex:
    queue = partial(bulk_queue, engine, model, settings, "neighbours")
    return ModelIndex(queue, settings.cache)


def _job_limits(settings: Settings) -> JobLimits:
    return JobLimits(
        jobs=settings.max_jobs,
        client_jobs=settings.max_client_jobs,
        job_bytes=settings.max_job_bytes,
        keep_seconds=settings.job_keep_seconds,
    )


def _watch(server: Server, segments: SharedMemoryPool) -> None:
    """Add the gauges that are read when the metrics are asked for."""
    engine, watch = server.engine, server.metrics.watch
    server.metrics.watch_models(
        "queue_sentences",
        "Sentences that wait for a worker.",
        lambda: {model: queue.sentences for model, queue in engine.queues.items()},
    )
    server.metrics.watch_models(
        "queue_tokens",
        "Their tokens, boundaries included.",
        lambda: {model: queue.tokens for model, queue in engine.queues.items()},
    )
    watch(
        "answer_bytes",
        "Bytes of answers admitted and not yet sent.",
        lambda: engine.admission.reserved_bytes,
    )
    watch(
        "receiving_bytes",
        "Bytes of request bodies that are being received or parsed.",
        lambda: server.receiving.used,
    )
    watch(
        "shared_memory_bytes",
        "Bytes of shared memory: large bodies, results and free segments.",
        lambda: segments.size,
    )


def _workers(
    model: ModelSpec,
    settings: Settings,
    segments: SharedMemoryPool,
    make: MakeWorker,
    timeouts: Timeouts,
    hardware: Hardware,
) -> list[WorkerSpec]:
    """Return the workers of one model: `workers_per_device` on each device."""
    names = hardware.available() if settings.devices == "auto" else settings.devices
    cpu_workers = sum(name == "cpu" for name in names) * settings.workers_per_device
    specs: list[WorkerSpec] = []
    for name in names:
        runner = RunnerSettings(
            model=model.source,
            device=name,
            precision=settings.precision_of(model.name),
            token_cache_size=settings.token_cache_size,
            gate_cache_bytes=settings.gate_cache_bytes,
            cuda_graphs=settings.cuda_graphs,
            threads=max(1, devices.cores() // cpu_workers) if name == "cpu" else 1,
            warm_up_tokens=settings.batch_tokens(name),
            log_level=settings.log_level,
            log_format=settings.log_format,
            word_vectors=str(settings.word_vectors or ""),
            cuda_slice=hardware.slice_of(name),
        )
        make_one = _bind(make, runner, segments, model.fault)
        spec = WorkerSpec(name, settings.batch_tokens(name), make_one, timeouts, model.name)
        specs += [spec] * settings.workers_per_device
    return specs


def _bind(
    make: MakeWorker, runner: RunnerSettings, segments: SharedMemoryPool, fault: str
) -> Callable[[], Worker]:
    if fault:
        return lambda: AbsentWorker(fault)
    return lambda: make(runner, segments)


_makers: dict[str, MakeWorker] = {
    "process": ProcessWorker,
    "thread": ThreadWorker,
}
