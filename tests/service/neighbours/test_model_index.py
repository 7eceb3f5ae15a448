"""The index of a model: 503 with how far it is, until it is there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from elmo_model.neighbours.text import built_in_sentences
from elmo_serve.errors import Unavailable
from elmo_serve.neighbours.model_index import ModelIndex
from tests.support.engines import Bench, bench, turns, until
from tests.support.gated_worker import GatedWorker
from tests.support.neighbours import bulk_queue_of

TOKENS = sum(map(len, built_in_sentences()))


def model_index(b: Bench, cache: Path | None) -> ModelIndex:
    return ModelIndex(lambda: bulk_queue_of(b, piece_tokens=1_000), cache)


async def refused(index: ModelIndex) -> Unavailable:
    with pytest.raises(Unavailable) as error:
        await index.get()
    return error.value


async def test_it_says_how_far_it_is_and_then_answers(tmp_path: Path) -> None:
    async with bench(lambda: GatedWorker(is_open=False), budget=4_000) as b:
        index = model_index(b, tmp_path)
        first = await refused(index)
        assert f"0 of {TOKENS:,} tokens are done (0%)" in first.detail
        assert first.retry_after >= 1
        await until(lambda: len(b.batches) == 1)
        b.workers[0].finish()
        await until(lambda: len(b.batches) == 2)
        second = first
        while " 0 of" in second.detail:
            second = await refused(index)
            await turns()
        assert f"{TOKENS:,} tokens are done (" in second.detail
        assert 1 <= second.retry_after <= 60

        b.workers[0].open()
        found = None
        while found is None:
            try:
                found = await index.get()
            except Unavailable:
                await asyncio.sleep(0.01)
        assert found.info.tokens == TOKENS
        assert await index.get() is found


async def test_what_the_cache_has_is_there_at_once(tmp_path: Path) -> None:
    async with bench(budget=4_000) as b:
        first = model_index(b, tmp_path)
        await refused(first)
        assert first.embedding is not None
        await first.embedding
        batches = len(b.batches)

        found = await model_index(b, tmp_path).get()

        assert found.info.tokens == TOKENS
        assert len(b.batches) == batches


async def test_a_cache_that_cannot_be_looked_up_is_done_without(tmp_path: Path) -> None:
    async with bench(budget=4_000) as b:
        index = model_index(b, tmp_path / ("x" * 300))
        assert "is being embedded" in (await refused(index)).detail
        assert index.embedding is not None
        await index.embedding

        assert (await index.get()).info.tokens == TOKENS


async def test_a_failure_is_reported_once_and_tried_again(tmp_path: Path) -> None:
    (tmp_path / "neighbours").mkdir()
    queues = iter([RuntimeError("the device is gone")])

    async with bench(budget=4_000) as b:
        asked = 0

        def queue() -> object:
            nonlocal asked
            asked += 1
            if asked == 3:  # for its revision and for the cache, it is asked before
                raise next(queues)
            return bulk_queue_of(b)

        index = ModelIndex(queue, tmp_path)  # type: ignore[arg-type]
        await refused(index)
        assert index.embedding is not None
        await asyncio.wait({index.embedding})
        error = await refused(index)
        assert "could not be embedded: the device is gone" in error.detail
        await refused(index)
        assert index.embedding is not None
        await index.embedding
        assert (await index.get()).info.tokens == TOKENS


async def test_a_closed_server_computes_no_further(tmp_path: Path) -> None:
    async with bench(lambda: GatedWorker(is_open=False), budget=4_000) as b:
        index = model_index(b, tmp_path)
        await refused(index)
        await until(lambda: len(b.batches) == 1)
        index.close()
        assert index.embedding is not None
        await asyncio.wait({index.embedding})
        assert index.embedding.cancelled()
        b.workers[0].open()
    assert list((tmp_path / "neighbours").iterdir()) == []
