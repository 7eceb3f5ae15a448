"""A block of the arena has one holder at a time, and unused pages go back to the system."""

import gc
import itertools
import mmap
import subprocess
import sys

import numpy as np
import pytest

from elmo_serve.errors import Unavailable
from elmo_serve.processes.arena import Arena, Block, view

MIB = 1 << 20


def extent(block: Block) -> range:
    """Return the bytes of whole pages that a block takes."""
    return range(block.start, block.start - (-block.size // mmap.PAGESIZE) * mmap.PAGESIZE)


def test_blocks_in_use_share_no_page() -> None:
    arena = Arena(64 * MIB)
    blocks = [arena.acquire(size) for size in (1, 4_096, 100_000, 0, 70_000)]

    places = sorted((extent(block) for block in blocks), key=lambda place: place.start)
    assert all(a.stop <= b.start for a, b in itertools.pairwise(places))
    assert [len(block.array) for block in blocks] == [1, 4_096, 100_000, 1, 70_000]
    assert all(block.start % mmap.PAGESIZE == 0 for block in blocks)


def test_a_block_is_not_given_out_again_while_any_array_over_it_exists() -> None:
    """The bytes of a response hold the block as well."""
    arena = Arena(64 * MIB)
    first = arena.acquire(100_000)
    place, part = first.start, view(first.array, 64, (10, 4), "float32")
    sent = part.reshape(-1).view(np.uint8).data
    del first, part
    gc.collect()
    assert arena.acquire(100_000).start != place
    assert len(sent) == 160
    del sent

    assert arena.acquire(100_000).start == place


def test_free_neighbours_are_one_extent_again() -> None:
    arena = Arena(16 * MIB)
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 2, 0)):
        held = {number: arena.acquire(4 * MIB) for number in range(4)}
        with pytest.raises(Unavailable):
            arena.acquire(1)
        for number in order:
            del held[number]

        assert arena.acquire(16 * MIB).start == 0


def test_a_full_arena_is_unavailable_and_takes_blocks_again_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    arena = Arena(8 * MIB)
    held = arena.acquire(5 * MIB)
    with pytest.raises(Unavailable, match="shared memory") as refusal:
        arena.acquire(5 * MIB)
    assert refusal.value.retry_after
    assert "no shared memory" in caplog.text
    del held

    assert arena.acquire(5 * MIB).start == 0


def test_pages_that_no_block_has_used_for_a_while_go_back_to_the_system() -> None:
    arena = Arena(256 * MIB)
    large, small = arena.acquire(40 * MIB), arena.acquire(MIB)
    large.array[:] = small.array[:] = 7
    assert arena.used == 41 * MIB
    del large
    assert not arena.trim(), "it may be used again at once"
    calls = 1
    while arena.trim():
        calls += 1
        assert arena.used < 41 * MIB
    assert calls > 1, "the event loop serves requests between two pieces"

    assert arena.used == MIB
    assert (small.array == 7).all()


def test_pages_that_are_used_again_and_again_stay() -> None:
    """To write to a page that was given back takes several times as long."""
    arena = Arena(256 * MIB)
    for _ in range(5):
        block = arena.acquire(4 * MIB)
        block.array[:] = 1
        del block
        assert not arena.trim()
        assert arena.used == 4 * MIB


def test_an_arena_of_64_gib_takes_no_memory_of_its_own() -> None:
    arena = Arena()
    assert arena.size == 1 << 36
    assert arena.used == 0


LIMITED = """
from elmo_serve.processes.arena import Arena
arena = Arena()
block = arena.acquire(1 << 20)
block.array[:] = 1
print(arena.size)
"""


@pytest.mark.parametrize("limit", ["-v 4000000", "-f 100000"])
def test_an_arena_fits_into_the_limits_of_the_process(limit: str) -> None:
    command = ["bash", "-c", f'ulimit {limit}; exec "$0" -c "$1"', sys.executable, LIMITED]
    size = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    assert MIB < size <= 1_000_000 << 10


@pytest.mark.parametrize(("shape", "dtype"), [((0, 4), "float32"), ((3, 0, 4), "float16")])
def test_a_sentence_without_tokens_has_a_shape(shape: tuple[int, ...], dtype: str) -> None:
    assert view(Arena(MIB).acquire(0).array, 0, shape, dtype).shape == shape
