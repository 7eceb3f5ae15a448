"""The index of a model: the user's, or the program's text, computed once and kept in the cache."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import orjson
import pytest

from elmo_model.files import atomic as atomic_files
from elmo_serve import uses
from elmo_serve.errors import Unavailable
from elmo_serve.settings import SettingsError
from elmo_serve.uses import (
    ModelUses,
    cached_folder,
    check_indexes,
    embed_uses,
    open_cached,
    open_indexes,
)
from tests.support.engines import Bench, bench, turns, until
from tests.support.folders import closed, read_only
from tests.support.full_disk import full_disk
from tests.support.gated_worker import INFO, GatedWorker, mark
from tests.support.uses import bulk_queue_of, made_up_index

TEXT = (("a", "bank"), ("the", "bank", "of", "a", "river"), ("play",), ("He", "plays", "."))
TOKENS = sum(map(len, TEXT))


@pytest.fixture(autouse=True)
def _short_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let four sentences stand for the text that comes with the program."""
    monkeypatch.setattr(uses, "built_in_sentences", lambda: TEXT)


def model_uses(b: Bench, cache: Path | None) -> ModelUses:
    return ModelUses(lambda: bulk_queue_of(b, piece_tokens=5), cache)


async def refused(index: ModelUses) -> Unavailable:
    with pytest.raises(Unavailable) as error:
        await index.get()
    return error.value


async def test_it_says_how_far_it_is_and_then_answers(tmp_path: Path) -> None:
    async with bench(lambda: GatedWorker(is_open=False), budget=5) as b:
        index = model_uses(b, tmp_path)
        first = await refused(index)
        assert f" 0 of {TOKENS}" in first.detail and first.retry_after >= 1
        await until(lambda: len(b.batches) == 1)
        b.workers[0].finish()
        await until(lambda: len(b.batches) == 2)
        while " 0 of" in (later := await refused(index)).detail:
            await turns()
        assert 0 < later.retry_after <= 60

        b.workers[0].open()
        assert index.embedding is not None
        await index.embedding
        found = await index.get()
        assert found.info.tokens == TOKENS
        assert await index.get() is found


async def test_every_token_has_the_vectors_of_its_sentence(tmp_path: Path) -> None:
    done: list[int] = []
    async with bench(budget=8) as b:
        index = await embed_uses(bulk_queue_of(b), tmp_path, done.append)

    assert sum(done) == TOKENS == index.info.tokens
    marks = [mark(orjson.dumps(sentence)) for sentence in TEXT for _ in sentence]
    np.testing.assert_array_equal(index.vectors[2][:, 0], marks)
    assert index.place(TOKENS - 1) == (TEXT[-1], len(TEXT[-1]) - 1)


async def test_what_the_cache_has_is_there_at_once(tmp_path: Path) -> None:
    async with bench(budget=8) as b:
        assert open_cached(tmp_path, INFO) is None
        index = await embed_uses(bulk_queue_of(b), tmp_path, lambda _: None)
        batches = len(b.batches)

        found = await model_uses(b, tmp_path).get()

        assert found.info == index.info
        assert len(b.batches) == batches
    assert list((tmp_path / "uses").iterdir()) == [cached_folder(tmp_path, INFO)]


async def test_an_index_that_comes_between_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another server may rename its folder between any two steps of this one."""
    publish = atomic_files.publish

    def overtaken(written: Path, target: Path) -> None:
        if target == cached_folder(tmp_path, INFO):
            shutil.copytree(written, target)
            (target / "theirs").touch()
        publish(written, target)

    monkeypatch.setattr(atomic_files, "publish", overtaken)
    async with bench(budget=8) as b:
        index = await embed_uses(bulk_queue_of(b), tmp_path, lambda _: None)

    assert index.info.tokens == TOKENS and "memory" not in caplog.text
    assert list((tmp_path / "uses").iterdir()) == [cached_folder(tmp_path, INFO)]
    assert (cached_folder(tmp_path, INFO) / "theirs").exists()


async def test_a_damaged_index_is_made_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(budget=8) as b:
        queue = bulk_queue_of(b)
        await embed_uses(queue, tmp_path, lambda _: None)
        (cached_folder(tmp_path, INFO) / "1.npy").write_bytes(b"torn")
        assert open_cached(tmp_path, queue.info) is None
        assert "made anew" in caplog.text
        await embed_uses(queue, tmp_path, lambda _: None)

    assert open_cached(tmp_path, queue.info) is not None


@pytest.mark.parametrize("cache", [None, Path("/dev/null/cache"), Path("/" + "x" * 300)])
async def test_without_a_folder_the_index_is_in_memory(
    cache: Path | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(budget=8) as b:
        index = model_uses(b, cache)
        await refused(index)
        assert index.embedding is not None
        await index.embedding

        assert (await index.get()).info.tokens == TOKENS
    assert "memory alone" in caplog.text


async def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    async with bench(budget=8) as b:
        with full_disk(100), pytest.raises(OSError, match="File too large"):
            await embed_uses(bulk_queue_of(b), tmp_path, lambda _: None)

    assert list((tmp_path / "uses").iterdir()) == []


@contextmanager
def shared_cache(mode: int) -> Iterator[Path]:
    """A cache folder that several users may write to; `mode` is that of its indexes."""
    with tempfile.TemporaryDirectory() as name:
        cache = Path(name)
        cache.chmod(0o755)
        (cache / "uses").mkdir()
        (cache / "uses").chmod(mode)
        yield cache


@pytest.mark.parametrize("mode", [0o777, 0o1777], ids=["shared", "sticky"])
async def test_an_index_of_another_user_that_cannot_be_replaced_stays(
    caplog: pytest.LogCaptureFixture, mode: int
) -> None:
    """It can neither be read nor removed: the embedded text is used, and not embedded again."""
    with shared_cache(mode) as cache:
        target = cached_folder(cache, INFO)
        (target / "theirs").mkdir(parents=True)
        async with bench(budget=8) as b:
            with closed(target):
                index = await embed_uses(bulk_queue_of(b), cache, lambda _: None)

        assert "memory alone" in caplog.text
        assert len(index.uses(np.ones((3, 4), np.float32), (0, 1, 0), 5)) == 5
        assert list(target.parent.iterdir()) == [target]
        assert (target / "theirs").exists()


async def test_a_whole_index_of_another_user_is_opened(caplog: pytest.LogCaptureFixture) -> None:
    """The sticky bit keeps it from being renamed over, with another error than elsewhere."""
    with shared_cache(0o1777) as cache:
        async with bench(budget=8) as b:
            queue = bulk_queue_of(b)
            await embed_uses(queue, cache, lambda _: None)
            with read_only(cached_folder(cache, INFO)):
                index = await embed_uses(queue, cache, lambda _: None)

        assert index.info.tokens == TOKENS
        assert "memory" not in caplog.text


def test_a_cache_that_cannot_be_looked_up_has_no_index(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closed(tmp_path), caplog.at_level(logging.WARNING):
        assert open_cached(tmp_path / "cache", INFO) is None

    assert "Permission denied" in caplog.text


async def test_a_failure_is_reported_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("the device is gone")

    async with bench(budget=8) as b:
        index = model_uses(b, tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(uses, "embed_uses", fail)
            await refused(index)
            assert index.embedding is not None
            await asyncio.wait({index.embedding})
        assert "the device is gone" in (await refused(index)).detail
        await refused(index)
        assert index.embedding is not None
        await index.embedding
        assert (await index.get()).info.tokens == TOKENS


async def test_a_closed_server_computes_no_further(tmp_path: Path) -> None:
    async with bench(lambda: GatedWorker(is_open=False), budget=5) as b:
        index = model_uses(b, tmp_path)
        await refused(index)
        await until(lambda: len(b.batches) == 1)
        index.close()
        assert index.embedding is not None
        await asyncio.wait({index.embedding})
        assert index.embedding.cancelled()
        b.workers[0].open()
    assert list((tmp_path / "uses").iterdir()) == []


async def test_an_index_of_the_user_is_found_by_its_revision(tmp_path: Path) -> None:
    made_up_index(tmp_path / "index", TEXT)
    indexes = open_indexes([tmp_path / "index"])
    check_indexes(indexes, {"first": "x", "second": "abc"})

    async with bench(budget=8) as b:
        queue = bulk_queue_of(b)
        index = ModelUses(lambda: queue, tmp_path, {queue.info.revision: indexes["abc"]})
        assert (await index.get()).info.text == "made up"
        other = ModelUses(lambda: queue, tmp_path, indexes)
        await refused(other)
        other.close()


def test_folders_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        made_up_index(tmp_path / name, TEXT)

    with pytest.raises(SettingsError, match="same model"):
        open_indexes([tmp_path / "one", tmp_path / "two"])
    with pytest.raises(SettingsError, match=r"ELMO_INDEX=.*is no index"):
        open_indexes([tmp_path])
    with pytest.raises(SettingsError, match="revision abc; english is ea02, pt is 77"):
        check_indexes(open_indexes([tmp_path / "one"]), {"english": "ea02", "pt": "77"})
