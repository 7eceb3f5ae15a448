"""Shared memory is lent to one at a time, comes back by itself, and does not pile up."""

import gc
import os

import numpy as np
import pytest

from elmo_serve.workers.shared_memory import SharedMemoryPool, map_descriptor, view


def test_what_is_lent_is_not_lent_again_while_anything_looks_at_it() -> None:
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


def test_bytes_of_an_answer_hold_their_memory_while_they_are_sent() -> None:
    pool = SharedMemoryPool()
    segment, array = pool.acquire(1_000)
    sent = view(array, 0, (8,), "float32").reshape(-1).view(np.uint8).data
    del array
    gc.collect()

    assert pool.acquire(1_000)[0].id != segment.id
    assert len(sent) == 32


def test_a_segment_is_used_again_for_what_is_about_as_large() -> None:
    pool = SharedMemoryPool()
    ids = set()
    for size in (1_000_000, 700_000, 1_000_000, 300_000, 1_048_576):
        segment, array = pool.acquire(size)
        assert len(array) >= size
        ids.add(segment.id)
        del array

    assert len(ids) == 1
    assert pool.size == 1 << 20


def test_a_small_answer_does_not_take_a_large_segment() -> None:
    pool = SharedMemoryPool()
    large, array = pool.acquire(10_000_000)
    del array

    assert pool.acquire(1_000)[0].id != large.id


def test_unused_memory_is_given_back() -> None:
    pool = SharedMemoryPool()
    size = 1 << 27
    lent = [pool.acquire(size) for _ in range(5)]
    gc.collect()
    before = open_files()
    ids = [segment.id for segment, _ in lent]
    del lent
    _, kept = pool.acquire(1)

    assert pool.size < 3 * size
    assert sum(map(pool.holds, ids)) == 2
    assert open_files() == before + 1 - 3  # one descriptor each
    del kept


def test_many_unused_segments_do_not_hold_descriptors() -> None:
    pool = SharedMemoryPool()
    before = open_files()
    lent = [pool.acquire(1_000) for _ in range(600)]
    assert open_files() >= before + 600
    del lent
    gc.collect()
    _, kept = pool.acquire(1)

    assert open_files() <= before + 2 * 130
    del kept


def test_a_lent_array_can_be_had_again_and_keeps_its_segment() -> None:
    pool = SharedMemoryPool()
    segment, array = pool.acquire(1_000)
    other = pool.share(segment)
    del array
    assert pool.acquire(1_000)[0].id != segment.id
    del other
    gc.collect()

    with pytest.raises(KeyError):
        pool.share(segment)


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
