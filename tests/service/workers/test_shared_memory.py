"""A segment has one holder at a time, returns to the pool by itself, and is not kept long."""

import gc
import os
import resource

import numpy as np
import pytest

from elmo_serve.errors import Unavailable
from elmo_serve.workers.shared_memory import SharedMemoryPool, map_descriptor, view


def test_a_segment_is_not_reused_while_any_array_over_it_exists() -> None:
    pool = SharedMemoryPool()
    first, array = pool.acquire(100_000)
    part = view(array, 64, (10, 4), "float32")
    del array

    second, other = pool.acquire(100_000)
    assert second.id != first.id
    del part
    third, again = pool.acquire(100_000)

    assert third.id == first.id
    del other, again


def test_the_bytes_of_a_response_keep_their_segment_in_use() -> None:
    pool = SharedMemoryPool()
    segment, array = pool.acquire(1_000)
    sent = view(array, 0, (8,), "float32").reshape(-1).view(np.uint8).data
    del array
    gc.collect()

    assert pool.acquire(1_000)[0].id != segment.id
    assert len(sent) == 32


def test_a_segment_is_reused_for_a_similar_size() -> None:
    pool = SharedMemoryPool()
    ids = set()
    for size in (1_000_000, 700_000, 1_000_000, 300_000, 1_048_576):
        segment, array = pool.acquire(size)
        assert len(array) >= size
        ids.add(segment.id)
        del array

    assert len(ids) == 1
    assert pool.size == 1 << 20


def test_a_small_size_does_not_get_a_large_segment() -> None:
    pool = SharedMemoryPool()
    large, array = pool.acquire(10_000_000)
    del array

    assert pool.acquire(1_000)[0].id != large.id


def test_free_memory_beyond_the_limit_is_unmapped() -> None:
    pool = SharedMemoryPool()
    size = 1 << 27
    held = [pool.acquire(size) for _ in range(5)]
    gc.collect()
    before = open_files()
    ids = [segment.id for segment, _ in held]
    del held
    _, kept = pool.acquire(1)

    assert pool.size < 3 * size
    assert sum(map(pool.holds, ids)) == 2
    assert open_files() == before + 1 - 3  # one descriptor each
    del kept


def test_many_unused_segments_do_not_hold_descriptors() -> None:
    pool = SharedMemoryPool()
    before = open_files()
    held = [pool.acquire(1_000) for _ in range(600)]
    assert open_files() >= before + 600
    del held
    gc.collect()
    _, kept = pool.acquire(1)

    assert open_files() <= before + 2 * 130
    del kept


def test_want_of_descriptors_is_unavailable_and_leaks_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = SharedMemoryPool()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = open_files()
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # open files stay open
    try:
        with pytest.raises(Unavailable, match="Too many open files"):
            pool.acquire(1_000)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert open_files() == before
    assert "no shared memory" in caplog.text
    assert pool.size == 0
    assert len(pool.acquire(1_000)[1]) >= 1_000


def test_want_of_memory_is_unavailable_and_leaks_nothing() -> None:
    pool = SharedMemoryPool()
    before = open_files()
    with pytest.raises(Unavailable, match=r"Cannot allocate memory|Invalid argument"):
        pool.acquire(1 << 50)

    assert open_files() == before
    assert pool.size == 0


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_another_mapping_sees_what_is_written() -> None:
    segment, array = SharedMemoryPool().acquire(1_000)
    other = map_descriptor(os.dup(segment.descriptor), segment.size)
    view(array, 128, (3,), "float32")[...] = (1, 2, 3)

    assert view(np.frombuffer(other, np.uint8), 128, (3,), "float32").tolist() == [1, 2, 3]


@pytest.mark.parametrize(("shape", "dtype"), [((0, 4), "float32"), ((3, 0, 4), "float16")])
def test_a_sentence_without_tokens_has_a_shape(shape: tuple[int, ...], dtype: str) -> None:
    _, array = SharedMemoryPool().acquire(1)

    assert view(array, 0, shape, dtype).shape == shape
