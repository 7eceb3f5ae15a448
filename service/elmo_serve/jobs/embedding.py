"""The vectors of a fit: bulk work of the server's queue, written to a file in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo_model.sentence_batches import by_length
from elmo_serve.errors import (
    ClientOverShare,
    DeadlineExceeded,
    Overloaded,
    SentenceFailed,
    TooLarge,
    Unavailable,
)
from elmo_serve.jobs.fit_plan import ALL_TOKENS, MEAN, FitPlan
from elmo_serve.jobs.scratch_files import ScratchFiles
from elmo_serve.output import ITEM_SIZES, Output
from elmo_serve.scheduling.engine import Embedded, Engine
from elmo_serve.scheduling.quotas import Hold
from elmo_serve.workers.messages import ModelInfo
from elmo_serve.workers.shared_memory import Segment

_AHEAD = 2
"""Pieces of a fit that are queued at once: a worker finds the next one when it is done. More of
them take more memory for their vectors (`benchmarks/fit_beside_small.py`)."""

_ATTEMPTS = 5
"""Times that a piece may time out, or lose its worker, before the job fails."""


_READY_SECONDS = 1.0
"""Pause between two looks at a model without a ready worker."""


class EmbeddingFailedError(Exception):
    """The vectors of a job cannot be computed; the message is one line."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Where and how the pieces of a job are queued.

    `model` is the name of the model, `info` its description, `client` the name that the job's quota
    is counted under. A piece has at most `piece_tokens` tokens, boundaries included, or one
    sentence.
    """

    engine: Engine
    model: str
    info: ModelInfo
    client: str
    piece_tokens: int
    timeout_seconds: float

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of the vector file: (L + 1, 2P) in float32."""
        return self.info.layers * self.info.dimension * ITEM_SIZES["float32"]


async def embed(
    plan: FitPlan,
    queue: Queue,
    files: ScratchFiles,
    target: Segment,
    on_tokens: Callable[[int], None],
    in_thread: Callable[..., Awaitable[None]] = asyncio.to_thread,
) -> None:
    """Compute the vectors of a plan and write them to `target`, row after row.

    Each piece is a bulk request of its own, so that interactive requests wait for one batch of it
    at most. A refused piece is queued again. `on_tokens` is called with the tokens of each piece,
    `in_thread` with a function that waits for the disk, and its arguments.

    Raises:
        EmbeddingFailedError: the model fails on a sentence, or a piece is never answered.
        OSError: the disk is full.
    """
    starts = plan.starts
    pieces = iter(list(_pieces(plan, queue.piece_tokens)))

    async def work() -> None:
        for piece in pieces:
            size = sum(starts[number + 1] - starts[number] for number in piece) * queue.row_bytes
            embedded, held = await _embedded(plan, queue, piece, size)
            try:
                await in_thread(_write, plan, queue, piece, embedded, starts, files, target)
            finally:
                held.release()
            on_tokens(sum(plan.lengths[number] for number in piece))

    tasks = [asyncio.ensure_future(work()) for _ in range(_AHEAD)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _pieces(plan: FitPlan, tokens: int) -> Iterator[list[int]]:
    """Cut the sentences into pieces of similar length; those of which a mean is kept, apart."""
    sentences = list(map(range, plan.lengths))  # `by_length` reads their lengths alone
    for is_mean in (False, True):
        numbers = [i for i, kept in enumerate(plan.kept) if (kept == MEAN) == is_mean]
        yield from by_length(numbers, sentences, tokens)


async def _embedded(
    plan: FitPlan, queue: Queue, piece: Sequence[int], size: int
) -> tuple[Embedded, Hold]:
    """Return the vectors of a piece, and their bytes, which count as an answer until released."""
    failures = 0
    while True:
        if queue.engine.why_not(queue.model) is not None:
            await asyncio.sleep(_READY_SECONDS)
            continue
        try:
            return await _attempt(plan, queue, piece, size)
        except SentenceFailed as error:
            _, _, index, *_ = error.errors[0].pointer.split("/")
            example = plan.owners[piece[int(index)]]
            raise EmbeddingFailedError(
                f"/examples/{example}: the model fails on this sentence"
            ) from error
        except TooLarge as error:
            raise EmbeddingFailedError(error.detail) from error
        except (Overloaded, ClientOverShare) as error:  # the queue is full: everybody waits
            await asyncio.sleep(error.retry_after)
        except (DeadlineExceeded, Unavailable) as error:
            failures += 1
            if failures == _ATTEMPTS:
                raise EmbeddingFailedError(f"no vectors came: {error.detail}") from error


async def _attempt(
    plan: FitPlan, queue: Queue, piece: Sequence[int], size: int
) -> tuple[Embedded, Hold]:
    held = queue.engine.admission.reserve(size, queue.model)
    try:
        return await _submit(plan, queue, piece), held
    except BaseException:
        held.release()
        raise


async def _submit(plan: FitPlan, queue: Queue, piece: Sequence[int]) -> Embedded:
    is_mean = plan.kept[piece[0]] == MEAN
    output = Output(
        layers=tuple(range(queue.info.layers)),
        stacked=True,
        layer_norm=plan.layer_norm,
        pooling="mean" if is_mean else "none",
    )
    return await queue.engine.embed(
        [plan.sentences[number] for number in piece],
        [plan.lengths[number] for number in piece],
        output,
        queue.timeout_seconds,
        queue.client,
        queue.model,
        is_bulk=True,
    )


def _write(
    plan: FitPlan,
    queue: Queue,
    piece: Sequence[int],
    embedded: Embedded,
    starts: Sequence[int],
    files: ScratchFiles,
    target: Segment,
) -> None:
    for number, vectors in zip(piece, embedded.vectors, strict=True):
        rows = _rows(vectors.numpy(), plan.kept[number])
        if rows.size:  # an empty sentence has no row
            files.write(target, starts[number] * queue.row_bytes, rows.data.cast("B"))


def _rows(vectors: NDArray[np.float32], kept: int) -> NDArray[np.float32]:
    """Map (L + 1, n, 2P), or the mean (L + 1, 2P), to the rows (rows, L + 1, 2P) that are kept."""
    if kept == MEAN:
        return np.ascontiguousarray(vectors[np.newaxis])
    if kept == ALL_TOKENS:
        return np.ascontiguousarray(vectors.transpose(1, 0, 2))
    return np.ascontiguousarray(vectors[np.newaxis, :, kept])
