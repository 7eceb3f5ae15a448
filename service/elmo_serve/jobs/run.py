"""One fit from its vectors to the task file: embed, train, publish."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_model.network.task import Task
from elmo_model.text.batches import by_length
from elmo_serve.errors import SentenceFailed, TryLater, Unavailable
from elmo_serve.jobs.bulk_queue import BulkQueue, Piece, WorkFailedError
from elmo_serve.jobs.child import FitChild, ScratchFile, SpawnFit
from elmo_serve.jobs.plan import ALL_TOKENS, MEAN, FitPlan, Fits, Scored, Train, Trained
from elmo_serve.jobs.store import JobFolder
from elmo_serve.metrics import Metrics
from elmo_serve.output import Output
from elmo_serve.scheduling.engine import Embedded
from elmo_serve.settings import variable
from elmo_serve.tasks.file import members
from elmo_serve.tasks.folder import in_folder_thread
from elmo_serve.tasks.registry import TaskRegistry

DESCRIPTION = "Learned by POST /tasks/{}/fit."

_PUBLISHING_SECONDS = 900.0
"""Seconds for which a task that cannot be written at present is written again. A larger value saves
a fit of hours from a longer fault of the task folder, and keeps the fits that wait from starting.
"""

_EMBEDDING_SHARE = 0.5
"""Share of the progress that stands for the vectors; the rest is for the fits."""


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FitHost:
    """Where fits run: the folder of their vectors, and their processes.

    `pause` waits for a number of seconds.
    """

    scratch: Path
    metrics: Metrics
    spawn: SpawnFit
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep


@dataclass(slots=True, eq=False)
class FitRun:
    """The work of one job. `progress` goes from 0 to 1; `scores` has the mixtures so far."""

    id: str
    name: str
    queue: BulkQueue
    registry: TaskRegistry
    plan: FitPlan
    folder: JobFolder
    host: FitHost
    progress: float = field(default=0.0, init=False)
    scores: Mapping[str, Any] = field(default_factory=dict, init=False)
    on_progress: Callable[[], None] = field(default=lambda: None, init=False)
    done_tokens: int = field(default=0, init=False)

    async def run(self, on_progress: Callable[[], None]) -> Mapping[str, Any]:
        """Fit and publish the task; return it for the response. A cancellation ends the process.

        A task folder that cannot be written at present is tried again for some minutes.

        Raises:
            WorkFailedError: nothing can be learned, or the vectors or the process were lost.
            ServiceError, OSError: the task or a file cannot be written.
        """
        self.on_progress = on_progress
        with ScratchFile(self.host.scratch) as file:
            child = FitChild(file, self._on_message, self.host.metrics, self.host.spawn)
            child.start()
            try:
                trained = await self._train(child, file)
            except OSError as error:
                place = f"{self.host.scratch} ({variable('scratch')})"
                reason = error.strerror or error
                raise WorkFailedError(f"no vectors can be kept in {place}: {reason}") from error
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
                _log.warning("task %s is written again in %d s: %s", self.name, seconds, refusal)
            waited += seconds
            await self.host.pause(seconds)

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

    async def _train(self, child: FitChild, file: ScratchFile) -> Trained:
        info, rows = self.queue.info, self.plan.row_offsets[-1]
        vectors = await asyncio.to_thread(file.create, rows * self.queue.row_bytes)
        queue = replace(self.queue, client=f"fit {self.id}")
        embedding = asyncio.ensure_future(embed(self.plan, queue, file, self._on_tokens))
        ended = asyncio.ensure_future(child.ended())
        try:
            await asyncio.wait((embedding, ended), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return ended.result()  # raises: it has no task yet
            embedding.result()
            task = Train(
                name=self.name,
                request=self.plan.request,
                vectors=vectors,
                shape=(rows, info.layers, info.dimension),
                model=info.name,
                revision=info.revision,
                format=info.format,
                folder=str(self.folder.artefacts(self.id)),
            )
            child.train(task)
            return await ended
        finally:
            for unfinished in (embedding, ended):
                unfinished.cancel()
            await asyncio.gather(embedding, ended, return_exceptions=True)

    def _on_tokens(self, tokens: int) -> None:
        self.done_tokens += tokens
        share = self.done_tokens / max(self.plan.tokens, 1)
        self._advance(_EMBEDDING_SHARE * share)

    def _on_message(self, message: Fits | Scored) -> None:
        match message:
            case Fits(done, total):
                self._advance(_EMBEDDING_SHARE + (1 - _EMBEDDING_SHARE) * done / total)
            case Scored(name, scores):
                mixtures = {**self.scores.get("mixtures", {}), name: scores}
                if name == f"layer {self.queue.info.layers - 1}":
                    mixtures["top"] = scores
                self.scores = {**self.scores, "mixtures": mixtures}
                self.on_progress()

    def _advance(self, progress: float) -> None:
        # A second process begins again.
        self.progress = min(max(self.progress, progress), 1.0)
        self.on_progress()

    def _publish(self, trained: Trained) -> Mapping[str, Any]:
        """Write head and report to `NAME.fit`, then the task file; return the task."""
        task = Task(
            self.name,
            trained.weights,
            trained.gamma,
            trained.layer_norm,
            DESCRIPTION.format(self.name),
        )
        self.scores = {**self.scores, **trained.scored}
        mixtures = {
            name: {key: scores[key] for key in ("mean", "spread")}
            for name, scores in self.scores["mixtures"].items()
        }
        measure = trained.scored["measure"]
        fit = {**trained.fit, "job": self.id, "measure": measure, "scores": mixtures}
        artefacts = self.folder.artefacts(self.id)
        if not artefacts.is_dir():  # its volume may come back, and a fit is worth waiting for that
            raise Unavailable("The task folder is missing", retry_after=10)
        self.registry.put(task, fit, artefacts)
        return members(task, self.registry.owner)


async def embed(
    plan: FitPlan, queue: BulkQueue, file: ScratchFile, on_tokens: Callable[[int], None]
) -> None:
    """Compute the vectors of a plan and write them to `file`, row after row.

    `on_tokens` is called with the tokens of each piece.

    Raises:
        WorkFailedError: the model fails on a sentence, or a piece is never answered.
        OSError: the disk is full.
    """
    offsets = plan.row_offsets

    def write(piece: Piece, embedded: Embedded) -> None:
        for number, vectors in zip(piece.numbers, embedded.vectors, strict=True):
            rows = _rows(vectors.numpy(), plan.row_kinds[number])
            if rows.size:  # an empty sentence has no row
                file.write(offsets[number] * queue.row_bytes, rows.data.cast("B"))

    try:
        await queue.run(_pieces(plan, queue), write, on_tokens)
    except SentenceFailed as error:
        example = plan.example_of[error.index]
        raise WorkFailedError(f"/examples/{example}: the model fails on this sentence") from error


def _pieces(plan: FitPlan, queue: BulkQueue) -> Iterator[Piece]:
    """Cut the sentences into pieces of similar length; those of which a mean is kept, apart."""
    sentences = list(map(range, plan.lengths))  # `by_length` reads their lengths alone
    usual = Output(tuple(range(queue.info.layers)), stacked=True, layer_norm=plan.layer_norm)
    for output, is_mean in ((usual, False), (replace(usual, pooling="mean"), True)):
        chosen = [i for i, kind in enumerate(plan.row_kinds) if (kind == MEAN) == is_mean]
        for numbers in by_length(chosen, sentences, queue.piece_tokens):
            yield Piece(
                numbers,
                [plan.sentences[number] for number in numbers],
                [plan.lengths[number] for number in numbers],
                output,
            )


def _rows(vectors: NDArray[np.float32], row_kind: int) -> NDArray[np.float32]:
    """Map (L + 1, n, 2P), or the mean (L + 1, 2P), to the rows (rows, L + 1, 2P) that are kept."""
    if row_kind == MEAN:
        return np.ascontiguousarray(vectors[np.newaxis])
    if row_kind == ALL_TOKENS:
        return np.ascontiguousarray(vectors.transpose(1, 0, 2))
    return np.ascontiguousarray(vectors[np.newaxis, :, row_kind])
