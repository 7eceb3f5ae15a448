"""The workers of a model on the devices of this machine, and their main function.

The server imports this module, so torch is imported in `work` alone.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from elmo_serve.processes.arena import Arena
from elmo_serve.processes.channel import Parent
from elmo_serve.processes.child import ChildProcess
from elmo_serve.processes.heartbeat import LOADING_SECONDS
from elmo_serve.processes.slot import Child, ChildOptions
from elmo_serve.settings import Settings
from elmo_serve.settings.values import ModelSource
from elmo_serve.workers.devices import Hardware
from elmo_serve.workers.messages import Ready, RunnerSettings

MakeWorker = Callable[[RunnerSettings, Arena], Child]

_GIVEN_UP_DELAY: Final = 300.0
"""Seconds between two starts of a worker that has failed often: each reads the whole checkpoint."""

_log = logging.getLogger("elmo_serve.workers")


def worker_process(settings: RunnerSettings, arena: Arena) -> ChildProcess:
    """Return the process of a worker, which is not started yet."""
    return ChildProcess(f"elmo-worker-{settings.device}", work, (settings,), arena)


def worker_options(
    model: ModelSource,
    settings: Settings,
    arena: Arena,
    hardware: Hardware,
    make: MakeWorker = worker_process,
) -> list[ChildOptions]:
    """Return the workers of one model: `workers_per_device` on each device of `hardware`.

    `make` makes other workers. The workers of all models on the CPU share the cores of `hardware`:
    they run at the same time, and each has measured its pace alone.
    """
    names = hardware.available() if settings.devices == "auto" else settings.devices
    cpu_workers = (
        sum(name == "cpu" for name in names) * settings.workers_per_device * len(settings.sources)
    )
    children: list[ChildOptions] = []
    is_first = model.name == settings.sources[0].name
    for name in names:
        runner = RunnerSettings(
            model=model.source,
            device=name,
            precision=settings.precision_of(model.name),
            threads=max(1, hardware.cores // cpu_workers) if name == "cpu" else 1,
            warm_up_tokens=settings.batch_tokens(name),
            softmax=str((is_first and settings.softmax) or ""),
            softmax_words=settings.softmax_words,
        )
        options = ChildOptions(
            name="worker",
            loading="the model is loading",
            make=partial(_made, make, runner, arena),
            largest_size=settings.batch_tokens(name),
            labels={"model": model.name, "device": name},
            given_up_delay=_GIVEN_UP_DELAY,
        )
        children += [options] * settings.workers_per_device
    return children


def _made(make: MakeWorker, runner: RunnerSettings, arena: Arena, last: Ready | None) -> Child:
    """Make a worker that is told what `last`, an earlier one on its device, has found."""
    return make(replace(runner, known=last), arena)


def work(parent: Parent, settings: RunnerSettings) -> None:
    """Load the model, then run batches until the server closes the channel."""
    # torch, in the worker's process only.
    from elmo_serve.workers import model_loading, model_worker  # noqa: PLC0415

    parent.heart.beat(LOADING_SECONDS)
    runner, message = model_loading.start(settings, owns_process=True)
    parent.send(message)
    if runner is None:
        return
    try:
        runner.serve(parent)
    except model_worker.DeviceLostError as error:
        _log.error("device lost", extra={"device": settings.device, "reason": str(error)})
        sys.exit(1)
