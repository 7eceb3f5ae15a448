"""One fit from its vectors to the task file: embed, train, publish."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo_model.task import Task
from elmo_serve.errors import TryLater
from elmo_serve.jobs.bulk_queue import BulkQueue
from elmo_serve.jobs.embedding import EmbeddingFailedError, embed
from elmo_serve.jobs.fit_child import FitChild, FitFailedError, SpawnFit
from elmo_serve.jobs.fit_messages import Fits, Scored, Train, Trained
from elmo_serve.jobs.fit_plan import FitPlan, FitSource
from elmo_serve.jobs.job_folder import JobFolder
from elmo_serve.jobs.scratch_files import ScratchFiles
from elmo_serve.metrics import Metrics
from elmo_serve.output import ITEM_SIZES
from elmo_serve.scheduling.engine import Engine
from elmo_serve.settings import variable
from elmo_serve.task_folder import in_folder_thread
from elmo_serve.tasks import TaskRegistry
from elmo_serve.workers.messages import ModelInfo

DESCRIPTION = "Learned by POST /tasks/{}/fit."

_PUBLISHING_SECONDS = 900.0
"""Seconds for which a task that cannot be written at present is written again. A larger value saves
a fit of hours from a longer fault of the task folder, and keeps the fits that wait from starting.
"""

_EMBEDDING_SHARE = 0.5
"""Share of the progress that stands for the vectors; the rest is for the fits."""


_log = logging.getLogger(__name__)


class FitStoppedError(Exception):
    """A fit cannot go on; the message is one line for the client."""


@dataclass(frozen=True, slots=True)
class FitModel:
    """The model of a fit: its name in requests, its description, its tasks and its queue.

    A piece of the fit has at most `piece_tokens` tokens.
    """

    name: str
    info: ModelInfo
    registry: TaskRegistry
    engine: Engine
    piece_tokens: int
    timeout_seconds: float

    @property
    def row_bytes(self) -> int:
        """Bytes of all layers of one token: (L + 1, 2P) in float32."""
        return self.info.layers * self.info.dimension * ITEM_SIZES["float32"]


@dataclass(frozen=True, slots=True)
class FitHost:
    """Where fits run: the folder of their vectors, and their processes.

    `pause` waits for a number of seconds.
    """

    scratch: Path
    metrics: Metrics
    spawn: SpawnFit
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep


class FitRun:
    """The work of one job. `progress` goes from 0 to 1; `scores` has the mixtures so far."""

    def __init__(
        self,
        job_id: str,
        name: str,
        model: FitModel,
        plan: FitPlan,
        body: bytes,
        source: FitSource,
        folder: JobFolder,
        host: FitHost,
    ) -> None:
        self.progress = 0.0
        self.scores: Mapping[str, Any] = {}
        self._id = job_id
        self._name = name
        self._model = model
        self._plan = plan
        self._body = body
        self._source = source
        self._folder = folder
        self._host = host
        self._on_progress: Callable[[], None] = lambda: None
        self._done_tokens = 0

    async def run(self, on_progress: Callable[[], None]) -> Mapping[str, Any]:
        """Fit and publish the task; return it for the response. A cancellation ends the process.

        A task folder that cannot be written at present is tried again for some minutes.

        Raises:
            FitStoppedError: nothing can be learned, or the vectors or the process were lost.
            ServiceError, OSError: the task or a file cannot be written.
        """
        self._on_progress = on_progress
        with ScratchFiles(self._host.scratch) as files:
            child = FitChild(files, self._on_message, self._host.metrics, self._host.spawn)
            child.start()
            try:
                trained = await self._train(child, files)
            except (EmbeddingFailedError, FitFailedError) as error:
                raise FitStoppedError(str(error)) from error
            except OSError as error:
                place = f"{self._host.scratch} ({variable('scratch')})"
                reason = error.strerror or error
                raise FitStoppedError(f"no vectors can be kept in {place}: {reason}") from error
            finally:
                await child.stop()
        waited = 0.0
        while True:
            try:
                return await self._published(trained)
            except TryLater as refusal:
                if waited >= _PUBLISHING_SECONDS:
                    raise
                seconds = refusal.retry_after
                _log.warning("task %s is written again in %d s: %s", self._name, seconds, refusal)
            waited += seconds
            await self._host.pause(seconds)

    async def _published(self, trained: Trained) -> Mapping[str, Any]:
        """Publish the task in a thread. A cancellation is too late once the task is written."""
        publishing = asyncio.ensure_future(in_folder_thread(self._publish, trained))
        is_cancelled = False
        while True:
            try:
                return await asyncio.shield(publishing)
            except asyncio.CancelledError:
                if publishing.cancelled():
                    raise
                is_cancelled = True
            except TryLater:
                if is_cancelled:
                    raise asyncio.CancelledError from None
                raise

    async def _train(self, child: FitChild, files: ScratchFiles) -> Trained:
        model, plan = self._model, self._plan
        rows = plan.starts[-1]
        vectors = await asyncio.to_thread(files.create, rows * model.row_bytes)
        body = await asyncio.to_thread(files.create, len(self._body))
        await asyncio.to_thread(files.write, body, 0, self._body)
        embedding = asyncio.ensure_future(
            embed(plan, self._queue(), files, vectors, self._on_tokens)
        )
        ended = asyncio.ensure_future(child.ended())
        try:
            await asyncio.wait((embedding, ended), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return ended.result()  # raises: it has no task yet
            embedding.result()
            task = Train(
                name=self._name,
                body=body,
                body_size=len(self._body),
                source=self._source,
                vectors=vectors,
                shape=(rows, model.info.layers, model.info.dimension),
                model=model.info.name,
                revision=model.info.revision,
                format=model.info.format,
                folder=str(self._folder.artefacts(self._id)),
            )
            return await child.train(task, body, vectors)
        finally:
            for unfinished in (embedding, ended):
                unfinished.cancel()
            await asyncio.gather(embedding, ended, return_exceptions=True)

    def _queue(self) -> BulkQueue:
        model = self._model
        return BulkQueue(
            engine=model.engine,
            model=model.name,
            info=model.info,
            client=f"fit {self._id}",
            piece_tokens=model.piece_tokens,
            timeout_seconds=model.timeout_seconds,
        )

    def _on_tokens(self, tokens: int) -> None:
        self._done_tokens += tokens
        share = self._done_tokens / max(self._plan.tokens, 1)
        self._advance(_EMBEDDING_SHARE * share)

    def _on_message(self, message: Fits | Scored) -> None:
        match message:
            case Fits(done, total):
                self._advance(_EMBEDDING_SHARE + (1 - _EMBEDDING_SHARE) * done / total)
            case Scored(name, scores):
                mixtures = {**self.scores.get("mixtures", {}), name: scores}
                if name == f"layer {self._model.info.layers - 1}":
                    mixtures["top"] = scores
                self.scores = {**self.scores, "mixtures": mixtures}
                self._on_progress()

    def _advance(self, progress: float) -> None:
        # A second process begins again.
        self.progress = min(max(self.progress, progress), 1.0)
        self._on_progress()

    def _publish(self, trained: Trained) -> Mapping[str, Any]:
        """Write head, report and picture to `NAME.fit`, then the task file; return the task."""
        task = Task(
            self._name,
            trained.weights,
            trained.gamma,
            trained.layer_norm,
            DESCRIPTION.format(self._name),
        )
        self.scores = {**self.scores, "scored_on": trained.scored_on, "measure": trained.measure}
        mixtures = {
            name: {key: scores[key] for key in ("mean", "spread")}
            for name, scores in self.scores["mixtures"].items()
        }
        fit = {**trained.fit, "job": self._id, "measure": trained.measure, "scores": mixtures}
        # Not before the name is known to be free: another model's task of it may have such files.
        self._model.registry.put(task, fit, lambda: self._folder.publish(self._id, self._name))
        return {
            "name": task.name,
            "weights": list(task.weights),
            "gamma": task.gamma,
            "layer_norm": task.layer_norm,
            "description": task.description,
            "model": self._model.registry.owner.name,
            "revision": self._model.registry.owner.revision,
        }
