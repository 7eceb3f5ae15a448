"""The workers of a model, by the settings: devices, batch sizes, precision and threads."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from elmo_serve.model_specs import ModelSpec
from elmo_serve.settings import Settings
from elmo_serve.workers.absent_worker import AbsentWorker
from elmo_serve.workers.devices import Hardware
from elmo_serve.workers.messages import ModelInfo, RunnerSettings, Worker
from elmo_serve.workers.process_worker import ProcessWorker
from elmo_serve.workers.shared_memory import SharedMemoryPool
from elmo_serve.workers.thread_worker import ThreadWorker
from elmo_serve.workers.watchdog import Timeouts
from elmo_serve.workers.worker_slot import WorkerSpec

MakeWorker = Callable[[RunnerSettings, SharedMemoryPool], Worker]

TIMEOUTS: Final = Timeouts()


def worker_specs(
    model: ModelSpec,
    settings: Settings,
    segments: SharedMemoryPool,
    hardware: Hardware,
    make_worker: MakeWorker | None = None,
    timeouts: Timeouts = TIMEOUTS,
) -> list[WorkerSpec]:
    """Return the workers of one model: `workers_per_device` on each device of `hardware`.

    `make_worker` makes workers other than those that the settings name. Workers on the CPU share
    the cores of `hardware`.
    """
    make = make_worker or _MAKERS[settings.worker]
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
            threads=max(1, hardware.cores // cpu_workers) if name == "cpu" else 1,
            warm_up_tokens=settings.batch_tokens(name),
            log_level=settings.log_level,
            log_format=settings.log_format,
            word_vectors=str(settings.word_vectors or ""),
            cuda_slice=hardware.slice_of(name),
        )
        make_one = _bind(make, runner, segments, model.fault)
        spec = WorkerSpec(
            name, settings.batch_tokens(name), make_one, timeouts, model.name, remake=make_one
        )
        specs += [spec] * settings.workers_per_device
    return specs


def _bind(
    make: MakeWorker, runner: RunnerSettings, segments: SharedMemoryPool, fault: str
) -> Callable[..., Worker]:
    def make_one(known: ModelInfo | None = None) -> Worker:
        return AbsentWorker(fault) if fault else make(replace(runner, known=known), segments)

    return make_one


_MAKERS: Final[dict[str, MakeWorker]] = {
    "process": ProcessWorker,
    "thread": ThreadWorker,
}
