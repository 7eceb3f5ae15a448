"""Fits without a server: the task of a fit's process, and requests and models for jobs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import torch

from elmo_serve.jobs.bodies import read_fit
from elmo_serve.jobs.bulk_queue import BulkQueue
from elmo_serve.jobs.child import ScratchFile, SpawnFit
from elmo_serve.jobs.plan import FitLimits, FitMessage, FitPlan, Fits, FitSource, Train
from elmo_serve.jobs.run import FitHost
from elmo_serve.jobs.training import train
from elmo_serve.metrics import Metrics
from elmo_serve.scheduling.engine import Engine
from elmo_serve.tasks.file import TaskOwner
from elmo_serve.tasks.registry import TaskRegistry
from elmo_serve.workers.shared_memory import Segment, map_descriptor
from elmo_serve.workers.slot import Started
from tests.support.fits import body
from tests.support.gated_worker import INFO

Pause = Callable[[float], Awaitable[object]]

SOURCE = FitSource(False, FitLimits(1_000, 10_000, 100), "whitespace", "en")


def fit_task(file: ScratchFile, folder: Path, **options: object) -> Train:
    """Write the vectors of a fit of 40 sentences to `file`; its results go to `folder`."""
    plan = fit_plan(**options)
    rows = plan.row_offsets[-1]
    vectors = np.random.default_rng(0).standard_normal((rows, 3, 4)).astype(np.float32)
    numbers = file.create(vectors.nbytes)
    file.write(0, vectors.data.cast("B"))
    return Train(
        name="mine",
        request=plan.request,
        vectors=numbers,
        shape=(rows, 3, 4),
        model="fake",
        revision="0",
        format="fake",
        folder=str(folder),
    )


def fit_plan(**options: object) -> FitPlan:
    """Return the plan of a fit of 40 sentences."""
    text = json.dumps(body(**options)).encode()  # type: ignore[arg-type]
    return read_fit(text, SOURCE).plan()


def fit_queue(engine: Engine) -> BulkQueue:
    """Return the queue of an engine over gated workers."""
    return BulkQueue(engine, engine.default, INFO, "somebody", 16, 60.0)


def fit_registry(engine: Engine, folder: Path) -> TaskRegistry:
    """Return the tasks of the model of gated workers, which lie in `folder`."""
    return TaskRegistry(folder, TaskOwner(INFO.layers, engine.default, revision=INFO.revision))


class FitHere:
    """The process of a fit, whose work is done in the process of the test: it loads no torch.

    It dies with each of `deaths`, before it has trained.
    """

    def __init__(self, file: ScratchFile, deaths: list[str] | None = None) -> None:
        self.is_killed = False
        self._deaths = deaths if deaths is not None else []

    def start(
        self, on_message: Callable[[FitMessage], None], on_exit: Callable[[str], None]
    ) -> None:
        """Be ready soon."""
        self._loop = asyncio.get_running_loop()
        self._on_message, self._on_exit = on_message, on_exit
        self._loop.call_soon(on_message, Started())

    def send(self, message: Train, /, *segments: Segment) -> None:
        """Fit the task soon; the event loop stands still meanwhile."""
        self._loop.call_soon(self._work, message)

    def kill(self) -> None:
        """Do nothing more."""
        self.is_killed = True
        self._loop.call_soon(self._on_exit, "was killed by SIGKILL")

    async def stop(self) -> None:
        """Do nothing more."""
        self.is_killed = True

    def _work(self, task: Train) -> None:
        if self.is_killed:
            return
        if self._deaths:
            self._on_message(Fits(1, 2))
            self._on_exit(self._deaths.pop(0))
            return
        memory = map_descriptor(task.vectors.descriptor, task.vectors.size)
        vectors = np.frombuffer(memory, np.uint8)
        threads = torch.get_num_threads()
        try:
            self._on_message(train(task, vectors, self._on_message))
        finally:
            torch.set_num_threads(threads)


def fit_host(scratch: Path, spawn: SpawnFit = FitHere, pause: Pause = asyncio.sleep) -> FitHost:
    """Return a host that fits in the process of the test."""
    return FitHost(scratch, Metrics(), spawn, pause)
