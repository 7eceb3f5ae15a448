"""The vectors of a fit: every row in its place, in pieces that let others pass."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from elmo_serve.jobs.bulk_queue import BulkQueue, WorkFailedError
from elmo_serve.jobs.child import ScratchFile
from elmo_serve.jobs.plan import ALL_TOKENS, MEAN, FitPlan
from elmo_serve.jobs.run import embed
from elmo_serve.workers.shared_memory import Segment
from tests.support.engines import Bench, bench, same_length, turns, until
from tests.support.gated_worker import DIES, DIMENSION, INFO, RAISES, GatedWorker, mark
from tests.support.virtual_time import in_virtual_time

SENTENCES = [["a", "b", "c"], [], ["d"], ["e", "f"], ["a", "b", "c"], ["g"] * 5]
KEPT = [ALL_TOKENS, ALL_TOKENS, MEAN, 1, MEAN, ALL_TOKENS]


def plan_of(sentences: list[list[str]], kept: list[int]) -> FitPlan:
    return FitPlan(
        kind="token",
        layer_norm=False,
        examples=len(sentences),
        sentences=[orjson.dumps(sentence) for sentence in sentences],
        lengths=[len(sentence) for sentence in sentences],
        row_kinds=kept,
        example_of=[10 + number for number in range(len(sentences))],
    )


async def at_once(write: Callable[..., None], *arguments: Any) -> None:
    """Write without a thread: virtual time would not wait for it."""
    write(*arguments)


def queue_of(b: Bench, piece_tokens: int = 10) -> BulkQueue:
    return BulkQueue(b.engine, b.engine.default, INFO, "fit x", piece_tokens, 60.0, at_once)


@asynccontextmanager
async def filled(b: Bench, plan: FitPlan, folder: Path) -> AsyncIterator[np.ndarray]:
    """Embed a plan and yield its rows (rows, L + 1, 2P)."""
    done: list[int] = []
    with ScratchFile(folder) as file:
        queue = queue_of(b)
        target = file.create(plan.row_offsets[-1] * queue.row_bytes)
        await embed(plan, queue, file, done.append)
        assert sum(done) == plan.tokens
        yield rows(target)


def drop(_: int) -> None:
    """Take the tokens of a piece and do nothing."""


def rows(target: Segment) -> np.ndarray:
    data = os.pread(target.descriptor, target.size, 0)
    return np.frombuffer(data, np.float32).reshape(-1, INFO.layers, DIMENSION)


@in_virtual_time
async def test_every_row_is_that_of_its_sentence(tmp_path: Path) -> None:
    plan = plan_of(SENTENCES, KEPT)
    async with bench(GatedWorker, GatedWorker) as b, filled(b, plan, tmp_path) as found:
        counts = [3, 0, 1, 1, 1, 5]
        texts = [orjson.dumps(sentence) for sentence in SENTENCES]
        marks = [mark(text) for text, n in zip(texts, counts, strict=True) for _ in range(n)]
        assert plan.row_offsets == [0, 3, 3, 4, 5, 6, 11]
        np.testing.assert_array_equal(found, np.array(marks, np.float32)[:, None, None] + 0 * found)


@in_virtual_time
async def test_a_small_request_passes_the_pieces_of_a_fit(tmp_path: Path) -> None:
    plan = plan_of(same_length("fit", 60), [MEAN] * 60)
    async with bench(lambda: GatedWorker(is_open=False)) as b:
        worker = b.workers[0]
        with ScratchFile(tmp_path) as file:
            queue = queue_of(b, piece_tokens=48)
            file.create(plan.row_offsets[-1] * queue.row_bytes)
            work = asyncio.ensure_future(embed(plan, queue, file, drop))
            await until(lambda: len(worker.batches) == 1)
            assert b.engine.admission.outstanding <= 2 * 48
            small = b.ask([["small"]])
            await turns()
            worker.finish()
            await until(lambda: len(worker.batches) > 1)
            assert worker.batches[1].sentences == (orjson.dumps(["small"]),)
            worker.open()
            await asyncio.gather(small, work)


@in_virtual_time
async def test_a_full_queue_and_a_lost_worker_are_waited_for(tmp_path: Path) -> None:
    plan = plan_of(SENTENCES, KEPT)
    async with bench(lambda: GatedWorker(is_open=False), queue_tokens=40) as b:
        crowd = b.ask(same_length("crowd", 4, tokens=6))
        await until(lambda: len(b.workers[0].batches) == 1)

        async def fill() -> int:
            async with filled(b, plan, tmp_path) as found:
                return len(found)

        work = asyncio.ensure_future(fill())
        await turns()
        b.workers[0].die("was killed by SIGKILL")
        await until(lambda: len(b.workers) == 2)
        b.workers[1].open()
        assert await work == plan.row_offsets[-1]
        await asyncio.gather(crowd, return_exceptions=True)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        (RAISES, "/examples/12: the model fails on this sentence"),
        (DIES, "no vectors came: The worker"),
    ],
)
@in_virtual_time
async def test_a_sentence_that_cannot_be_computed_ends_the_job(
    tmp_path: Path, word: str, reason: str
) -> None:
    plan = plan_of([["a"], ["b"], [word, "c"]], [MEAN] * 3)
    async with bench() as b:
        with pytest.raises(WorkFailedError, match=reason):
            async with filled(b, plan, tmp_path):
                pass


@in_virtual_time
async def test_a_cancelled_job_gives_everything_back(tmp_path: Path) -> None:
    plan = plan_of(same_length("fit", 60), [MEAN] * 60)
    async with bench(lambda: GatedWorker(is_open=False)) as b:
        with ScratchFile(tmp_path) as file:
            file.create(plan.row_offsets[-1] * queue_of(b).row_bytes)
            work = asyncio.ensure_future(embed(plan, queue_of(b), file, drop))
            await until(lambda: len(b.workers[0].batches) == 1)
            assert b.engine.answers.used
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
        b.workers[0].open()
        await turns()
        assert b.engine.answers.used == 0
