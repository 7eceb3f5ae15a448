"""Fits without a server: the task of a fit's process, and requests and models for jobs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from elmo_serve.jobs.fit_body import read_fit
from elmo_serve.jobs.fit_child import SpawnFit
from elmo_serve.jobs.fit_messages import FitMessage, Fits, Train
from elmo_serve.jobs.fit_plan import FitLimits, FitPlan, FitSource
from elmo_serve.jobs.fit_run import FitHost, FitModel
from elmo_serve.jobs.fit_training import train
from elmo_serve.jobs.scratch_files import ScratchFiles
from elmo_serve.metrics import Metrics
from elmo_serve.scheduling.engine import Engine
from elmo_serve.task_file import TaskOwner
from elmo_serve.tasks import TaskRegistry
from elmo_serve.workers.shared_memory import Segment, map_descriptor
from elmo_serve.workers.slot import Started
from tests.support.fits import body
from tests.support.gated_worker import INFO

Pause = Callable[[float], Awaitable[object]]

SOURCE = FitSource(False, FitLimits(1_000, 10_000, 100), "whitespace", "en")


@dataclass(frozen=True, slots=True)
class FitTask:
    """A task and the files that it names."""

    train: Train
    segments: tuple[Segment, Segment]


def fit_task(files: ScratchFiles, folder: Path, **options: object) -> FitTask:
    """Write body and vectors of a fit of 40 sentences to `files`; its results go to `folder`."""
    text = json.dumps(body(**options)).encode()  # type: ignore[arg-type]
    rows = read_fit(text, SOURCE).starts[-1]
    vectors = np.random.default_rng(0).standard_normal((rows, 3, 4)).astype(np.float32)
    sent, numbers = files.create(len(text)), files.create(vectors.nbytes)
    files.write(sent, 0, text)
    files.write(numbers, 0, vectors.data.cast("B"))
    train = Train(
        name="mine",
        body=sent,
        body_size=len(text),
        source=SOURCE,
        vectors=numbers,
        shape=(rows, 3, 4),
        model="fake",
        revision="0",
        format="fake",
        folder=str(folder),
    )
    return FitTask(train, (sent, numbers))


def fit_request(**options: object) -> tuple[bytes, FitPlan]:
    """Return the body of a fit of 40 sentences, and its plan."""
    text = json.dumps(body(**options)).encode()  # type: ignore[arg-type]
    return text, read_fit(text, SOURCE).plan()


def fit_model(engine: Engine, folder: Path) -> FitModel:
    """Return the model of an engine over gated workers, whose tasks lie in `folder`."""
    owner = TaskOwner(INFO.layers, engine.default, revision=INFO.revision)
    return FitModel(
        name=engine.default,
        info=INFO,
        registry=TaskRegistry(folder, owner),
        engine=engine,
        piece_tokens=16,
        timeout_seconds=60.0,
    )


class FitHere:
    """The process of a fit, whose work is done in the process of the test: it loads no torch.

    It dies with each of `deaths`, before it has trained.
    """

    def __init__(self, files: ScratchFiles, deaths: list[str] | None = None) -> None:
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
        self._loop.call_soon(self._work, message, segments)

    def kill(self) -> None:
        """Do nothing more."""
        self.is_killed = True
        self._loop.call_soon(self._on_exit, "was killed by SIGKILL")

    async def stop(self) -> None:
        """Do nothing more."""
        self.is_killed = True

    def _work(self, task: Train, segments: tuple[Segment, ...]) -> None:
        if self.is_killed:
            return
        if self._deaths:
            self._on_message(Fits(1, 2))
            self._on_exit(self._deaths.pop(0))
            return
        body, vectors = (
            np.frombuffer(map_descriptor(each.descriptor, each.size), np.uint8) for each in segments
        )
        threads = torch.get_num_threads()
        try:
            self._on_message(train(task, body, vectors, self._on_message))
        finally:
            torch.set_num_threads(threads)


def fit_host(scratch: Path, spawn: SpawnFit = FitHere, pause: Pause = asyncio.sleep) -> FitHost:
    """Return a host that fits in the process of the test."""
    return FitHost(scratch, Metrics(), spawn, pause)
