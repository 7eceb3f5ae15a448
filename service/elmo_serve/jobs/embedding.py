"""The vectors of a fit: bulk work of the server's queue, written to a file in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from elmo_model.sentence_batches import by_length
from elmo_serve.errors import SentenceFailed
from elmo_serve.jobs.bulk_queue import AHEAD, BulkFailedError, BulkQueue
from elmo_serve.jobs.fit_plan import ALL_TOKENS, MEAN, FitPlan
from elmo_serve.jobs.scratch_files import ScratchFiles
from elmo_serve.output import Output
from elmo_serve.scheduling.engine import Embedded
from elmo_serve.scheduling.quotas import Hold
from elmo_serve.workers.shared_memory import Segment


class EmbeddingFailedError(Exception):
    """The vectors of a job cannot be computed; the message is one line."""


async def embed(
    plan: FitPlan,
    queue: BulkQueue,
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

    tasks = [asyncio.ensure_future(work()) for _ in range(AHEAD)]
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
    plan: FitPlan, queue: BulkQueue, piece: Sequence[int], size: int
) -> tuple[Embedded, Hold]:
    """Return the vectors of a piece, and their bytes, which count as an answer until released."""
    output = Output(
        layers=tuple(range(queue.info.layers)),
        stacked=True,
        layer_norm=plan.layer_norm,
        pooling="mean" if plan.kept[piece[0]] == MEAN else "none",
    )
    sentences = [plan.sentences[number] for number in piece]
    lengths = [plan.lengths[number] for number in piece]
    try:
        return await queue.embed(sentences, lengths, output, size)
    except SentenceFailed as error:
        example = plan.owners[piece[error.index]]
        raise EmbeddingFailedError(
            f"/examples/{example}: the model fails on this sentence"
        ) from error
    except BulkFailedError as error:
        raise EmbeddingFailedError(str(error)) from error


def _write(
    plan: FitPlan,
    queue: BulkQueue,
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
