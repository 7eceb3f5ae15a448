"""One fit from its vectors to the task file: embed, train, publish."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from elmo_model.task import Task
from elmo_serve.jobs.bulk_queue import BulkQueue
from elmo_serve.jobs.embedding import EmbeddingFailedError, embed
from elmo_serve.jobs.fit_child import FitChild, FitFailedError
from elmo_serve.jobs.fit_messages import Fits, Scored, Train, Trained
from elmo_serve.jobs.fit_plan import FitPlan, FitSource
from elmo_serve.jobs.job_folder import JobFolder
from elmo_serve.jobs.scratch_files import ScratchFiles
from elmo_serve.metrics import Metrics
from elmo_serve.output import ITEM_SIZES
from elmo_serve.scheduling.interface import EmbeddingEngine
from elmo_serve.tasks import TaskRegistry
from elmo_serve.workers.messages import ModelInfo

DESCRIPTION = "Learned by POST /tasks/{}/fit."

_EMBEDDING_SHARE = 0.5
"""Share of the progress that stands for the vectors; the rest is for the fits."""


class FitStoppedError(Exception):
    """A fit cannot go on; the message is one line for the client."""


@dataclass(frozen=True, slots=True)
class FitModel:
    """The model of a fit: its name in requests, its description, its tasks and its queue.

    A piece of the fit has at most `piece_tokens` tokens. `log` is the level and the form of the
    log lines of the fit's process.
    """

    name: str
    info: ModelInfo
    registry: TaskRegistry
    engine: EmbeddingEngine
    piece_tokens: int
    timeout_seconds: float
    log: tuple[str, str]

    @property
    def row_bytes(self) -> int:
        """Bytes of all layers of one token: (L + 1, 2P) in float32."""
        return self.info.layers * self.info.dimension * ITEM_SIZES["float32"]


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
        metrics: Metrics,
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
        self._metrics = metrics
        self._on_progress: Callable[[], None] = lambda: None
        self._done_tokens = 0

    async def run(self, on_progress: Callable[[], None]) -> Mapping[str, Any]:
        """Fit and publish the task; return it for the response. A cancellation ends the process.

        Raises:
            FitStoppedError: nothing can be learned, or the vectors or the process were lost.
            ServiceError, OSError: the task or a file cannot be written.
        """
        self._on_progress = on_progress
        with ScratchFiles(self._folder.path) as files:
            child = FitChild(files, self._metrics, self._on_message, self._model.log)
            child.start()
            try:
                trained = await self._train(child, files)
            except (EmbeddingFailedError, FitFailedError) as error:
                raise FitStoppedError(str(error)) from error
            finally:
                await child.stop()
        publishing = asyncio.ensure_future(asyncio.to_thread(self._publish, trained))
        while True:
            try:
                return await asyncio.shield(publishing)
            except asyncio.CancelledError:  # too late, each time: the files are being written
                if publishing.cancelled():
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
