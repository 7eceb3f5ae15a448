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
from elmo_serve.jobs.fit_child import FitFailedError
from elmo_serve.jobs.fit_messages import (
    FitMessage,
    Fits,
    NotTrained,
    Scored,
    Train,
    Trained,
)
from elmo_serve.jobs.fit_plan import FitLimits, FitPlan, FitSource
from elmo_serve.jobs.fit_run import FitHost, FitModel
from elmo_serve.jobs.fit_training import train
from elmo_serve.jobs.scratch_files import ScratchFiles
from elmo_serve.scheduling.engine import Engine
from elmo_serve.task_file import TaskOwner
from elmo_serve.tasks import TaskRegistry
from elmo_serve.workers.shared_memory import Segment, map_descriptor
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


class TrainerHere:
    """Fits in the process of the test, in place of a child process that loads torch."""

    def __init__(self, files: ScratchFiles, on_message: Callable[[Fits | Scored], None]) -> None:
        self._on_message = on_message
        self._never: asyncio.Future[Trained] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        """Do nothing: there is no process."""

    async def train(self, task: Train, *segments: Segment) -> Trained:
        """Fit the task while the event loop stands still."""
        threads = torch.get_num_threads()
        memory = [np.frombuffer(map_descriptor(s.descriptor, s.size), np.uint8) for s in segments]
        try:
            found = train(task, memory[0], memory[1], self._send)
        finally:
            torch.set_num_threads(threads)
        if isinstance(found, NotTrained):
            raise FitFailedError(found.reason)
        return found

    async def ended(self) -> Trained:
        """Wait for ever: no process is lost."""
        return await self._never

    async def stop(self) -> None:
        """End the waiting."""
        self._never.cancel()

    def _send(self, message: FitMessage) -> None:
        if isinstance(message, Fits | Scored):
            self._on_message(message)


def fit_host(scratch: Path, pause: Pause = asyncio.sleep) -> FitHost:
    """Return a host that fits in the process of the test."""
    return FitHost(scratch, TrainerHere, pause)
