"""The index of the program's text: computed once, kept in the cache, in memory where it must be."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import orjson
import pytest

from elmo_model.files import atomic as atomic_files
from elmo_model.files.locks import share_folder
from elmo_serve.neighbours import model_index
from elmo_serve.neighbours.model_index import cached_folder, embed_uses, open_cached
from tests.support.engines import bench
from tests.support.folders import closed, read_only
from tests.support.full_disk import full_disk
from tests.support.gated_worker import INFO, mark
from tests.support.neighbours import bulk_queue_of

TEXT = (("a", "bank"), ("the", "bank", "of", "a", "river"), ("play",), ("He", "plays", "."))
TOKENS = sum(map(len, TEXT))


@pytest.fixture(autouse=True)
def _short_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let four sentences stand for the text that comes with the program."""
    monkeypatch.setattr(model_index, "built_in_sentences", lambda: TEXT)


async def test_every_token_has_the_vectors_of_its_sentence(tmp_path: Path) -> None:
    done: list[int] = []
    async with bench(budget=8) as b:
        index = await embed_uses(bulk_queue_of(b), tmp_path, done.append)
        assert b.batches

    assert sum(done) == TOKENS == index.info.tokens
    (part,) = index.parts
    marks = [mark(orjson.dumps(sentence)) for sentence in TEXT for _ in sentence]
    np.testing.assert_array_equal(part.layer(2, np.arange(TOKENS))[:, 0], marks)
    assert index.place(TOKENS - 1) == (TEXT[-1], len(TEXT[-1]) - 1)


async def test_a_second_server_opens_what_the_first_has_kept(tmp_path: Path) -> None:
    async with bench(budget=8) as b:
        queue = bulk_queue_of(b)
        assert open_cached(tmp_path, queue.info) is None
        index = await embed_uses(queue, tmp_path, lambda _: None)

    cached = open_cached(tmp_path, queue.info)
    assert cached is not None
    assert cached.info == index.info
    assert [path.name for path in (tmp_path / "neighbours").iterdir()] == [
        cached_folder(tmp_path, INFO).name
    ]


async def test_servers_that_embed_at_the_same_time_share_one_index(tmp_path: Path) -> None:
    async with bench(budget=8) as b:
        queue = bulk_queue_of(b)
        both = await asyncio.gather(
            *(embed_uses(queue, tmp_path, lambda _: None) for _ in range(2))
        )

    first, second = (index.parts[0].layer(0, np.arange(3)) for index in both)
    np.testing.assert_array_equal(first, second)
    assert len(list((tmp_path / "neighbours").iterdir())) == 1


async def test_an_index_that_comes_between_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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

    assert index.info.tokens == TOKENS
    assert [path.name for path in (tmp_path / "neighbours").iterdir()] == [
        cached_folder(tmp_path, INFO).name
    ]
    assert (cached_folder(tmp_path, INFO) / "theirs").exists()


async def test_a_damaged_index_is_made_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(budget=8) as b:
        queue = bulk_queue_of(b)
        await embed_uses(queue, tmp_path, lambda _: None)
        (cached_folder(tmp_path, INFO) / "part-00000" / "1.npy").write_bytes(b"torn")
        with caplog.at_level(logging.WARNING):
            assert open_cached(tmp_path, queue.info) is None
        assert "it is made anew" in caplog.text
        await embed_uses(queue, tmp_path, lambda _: None)

    assert open_cached(tmp_path, queue.info) is not None


@pytest.mark.parametrize("cache", [None, Path("/dev/null/cache")], ids=["none", "not writable"])
async def test_without_a_folder_the_index_is_in_memory(
    cache: Path | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(budget=8) as b:
        with caplog.at_level(logging.WARNING):
            index = await embed_uses(bulk_queue_of(b), cache, lambda _: None)

    assert "kept in memory alone" in caplog.text
    assert index.info.tokens == TOKENS
    assert len(index.uses(np.ones((3, 4), np.float32), (0, 1, 0), 5)) == 5


def test_a_cache_that_cannot_be_looked_up_has_no_index(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closed(tmp_path), caplog.at_level(logging.WARNING):
        assert open_cached(tmp_path / "cache", INFO) is None

    assert "Permission denied" in caplog.text


@pytest.mark.parametrize("cache", [None, Path("/dev/null/cache"), Path("/nowhere")])
def test_a_cache_that_is_not_there_is_no_fault(
    cache: Path | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert open_cached(cache, INFO) is None

    assert not caplog.text


async def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    async with bench(budget=8) as b:
        with full_disk(100), pytest.raises(OSError, match="File too large"):
            await embed_uses(bulk_queue_of(b), tmp_path, lambda _: None)

    assert list((tmp_path / "neighbours").iterdir()) == []


async def test_what_a_killed_server_has_left_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "neighbours"
    for name in (".killed.tmp", ".running.tmp"):
        (folder / name / "part").mkdir(parents=True)
    (folder / ".renamed.tmp").symlink_to("nowhere")  # listed, and gone when it is looked at
    lock = share_folder(folder / ".running.tmp")

    async with bench(budget=8) as b:
        await embed_uses(bulk_queue_of(b), tmp_path, lambda _: None)
    os.close(lock)

    assert sorted(path.name for path in folder.iterdir()) == [
        ".renamed.tmp",
        ".running.tmp",
        cached_folder(tmp_path, INFO).name,
    ]


@contextmanager
def shared_cache(mode: int) -> Iterator[Path]:
    """A cache folder that several users may write to; `mode` is that of its indexes."""
    with tempfile.TemporaryDirectory() as name:
        cache = Path(name)
        cache.chmod(0o755)
        (cache / "neighbours").mkdir()
        (cache / "neighbours").chmod(mode)
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
            with closed(target), caplog.at_level(logging.WARNING):
                index = await embed_uses(bulk_queue_of(b), cache, lambda _: None)

        assert "kept in memory alone" in caplog.text
        assert len(index.uses(np.ones((3, 4), np.float32), (0, 1, 0), 5)) == 5
        assert list(target.parent.iterdir()) == [target]
        assert (target / "theirs").exists()


async def test_a_whole_index_of_another_user_is_opened(caplog: pytest.LogCaptureFixture) -> None:
    """The sticky bit keeps it from being renamed over, with another error than elsewhere."""
    with shared_cache(0o1777) as cache:
        async with bench(budget=8) as b:
            queue = bulk_queue_of(b)
            await embed_uses(queue, cache, lambda _: None)
            with read_only(cached_folder(cache, INFO)), caplog.at_level(logging.WARNING):
                index = await embed_uses(queue, cache, lambda _: None)

        assert index.info.tokens == TOKENS
        assert "kept in memory" not in caplog.text
