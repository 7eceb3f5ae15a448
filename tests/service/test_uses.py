"""The index of a model: the user's, or the program's text, computed at its first use."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from elmo_model.network.description import Centre
from elmo_model.uses.index import Use
from elmo_serve import uses
from elmo_serve.errors import Unavailable
from elmo_serve.settings import Settings, SettingsError
from elmo_serve.uses import Indexes, ModelUses, check_indexes, open_indexes
from tests.support.engines import MODEL, Bench, bench, turns, until
from tests.support.made_up import made_up_index
from tests.support.workers import INFO, RAISES, GatedWorker, mark

TEXT = (("a", "bank"), ("the", "bank", "of", "a", "river"), ("play",), ("He", "plays", "."))
TOKENS = sum(map(len, TEXT))


@pytest.fixture(autouse=True)
def _short_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let four sentences stand for the text that comes with the program."""
    monkeypatch.setattr(uses, "built_in_sentences", lambda: TEXT)


def model_uses(b: Bench, indexes: Indexes | None = None) -> ModelUses:
    """Return the index of the model of a bench, whose centre is zero."""
    b.pool.info = replace(INFO, centre=Centre("zeros", 0, np.zeros((3, 4), np.float32)))
    return ModelUses(b.engine, MODEL, Settings(), indexes or {})


def refused(index: ModelUses) -> Unavailable:
    with pytest.raises(Unavailable) as error:
        index.get()
    return error.value


async def test_it_says_how_far_it_is_and_then_answers() -> None:
    async with bench(lambda: GatedWorker(is_open=False), budget=5) as b:
        index = model_uses(b)
        first = refused(index)
        assert f" 0 of {TOKENS}" in first.detail and first.retry_after >= 1
        await until(lambda: len(b.batches) == 1)
        b.workers[0].finish()
        await until(lambda: len(b.batches) == 2)
        while " 0 of" in (later := refused(index)).detail:
            await turns()
        assert 0 < later.retry_after <= 60

        b.workers[0].open()
        assert index.embedding is not None
        await index.embedding
        found = index.get()
        assert found.info.tokens == TOKENS
        assert index.get() is found


async def test_every_token_has_the_vectors_of_its_sentence() -> None:
    async with bench(budget=8) as b:
        index = model_uses(b)
        refused(index)
        assert index.embedding is not None
        found = await index.embedding

    marks = [mark(orjson.dumps(sentence)) for sentence in TEXT for _ in sentence]
    np.testing.assert_array_equal(found.vectors[2][:, 0], marks)
    assert found.use(TOKENS - 1) == Use(TEXT[-1], len(TEXT[-1]) - 1, None)


async def test_the_text_is_bulk_work_that_comes_after_interactive_requests() -> None:
    async with bench(lambda: GatedWorker(is_open=False), budget=8) as b:
        index = model_uses(b)
        refused(index)
        await until(lambda: len(b.batches) == 1)
        asked = b.ask([["interactive"]])
        await until(lambda: len(b.batches) == 2)
        b.workers[0].open()
        await asked
        assert index.embedding is not None
        assert not index.embedding.done()
        await index.embedding


async def test_a_failure_ends_the_work_and_the_next_call_begins_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(budget=8) as b:
        index = model_uses(b)
        with monkeypatch.context() as patch:
            patch.setattr(uses, "built_in_sentences", lambda: (("a",), (RAISES,)))
            refused(index)
            assert index.embedding is not None
            await asyncio.wait({index.embedding})
        assert "could not be embedded" in refused(index).detail
        refused(index)
        assert index.embedding is not None
        await index.embedding
        assert index.get().info.tokens == TOKENS


async def test_a_closed_server_computes_no_further() -> None:
    async with bench(lambda: GatedWorker(is_open=False), budget=5) as b:
        index = model_uses(b)
        refused(index)
        await until(lambda: len(b.batches) == 1)
        index.close()
        assert index.embedding is not None
        await asyncio.wait({index.embedding})
        assert index.embedding.cancelled()
        b.workers[0].open()


async def test_an_index_of_the_user_is_found_by_its_revision(tmp_path: Path) -> None:
    made_up_index(tmp_path / "index", TEXT)
    indexes = open_indexes([tmp_path / "index"])
    check_indexes(indexes, {"first": "x", "second": "abc"})

    async with bench(budget=8) as b:
        index = model_uses(b, {INFO.revision: indexes["abc"]})
        assert index.get().info.text == "made up"
        centre = index.centre
        assert (centre.text, centre.tokens) == ("made up", TOKENS)
        assert centre.layers is index.get().centre
        other = model_uses(b, indexes)
        assert other.centre.text == "zeros"
        refused(other)
        other.close()


def test_folders_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        made_up_index(tmp_path / name, TEXT)

    with pytest.raises(SettingsError, match="same model"):
        open_indexes([tmp_path / "one", tmp_path / "two"])
    with pytest.raises(SettingsError, match=r"ELMO_INDEX=.*is no index"):
        open_indexes([tmp_path])
    with pytest.raises(SettingsError, match="revision abc"):
        check_indexes(open_indexes([tmp_path / "one"]), {"english": "ea02", "pt": "77"})
