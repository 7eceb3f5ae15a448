"""A batch in blocks of time steps: the same bits however it stops, bounded memory, cancellation."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from elmo_model.checkpoints import load
from elmo_model.inference.batch_run import never
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.linear import has_eight_bits
from elmo_model.inference.precision import PRECISIONS
from tests.support.checkpoints import write_pair

SENTENCES = [[f"w{place * row % 11}" for place in range(length)] for row, length in
             enumerate((3, 90, 0, 1, 17, 33))]  # fmt: skip
NEEDS_8_BITS = pytest.mark.skipif(not has_eight_bits(), reason="no exact 8-bit product here")
EVERY_PRECISION = [
    pytest.param(name, marks=NEEDS_8_BITS if name == "int8" else ()) for name in PRECISIONS
]


def every(steps: int) -> Callable[[], bool]:
    """Return a function that is true once in so many calls."""
    calls = itertools.count(1)
    return lambda: next(calls) % steps == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp("elmo") / "model", cell=24, projection=12, layers=3)


@pytest.mark.parametrize("precision", EVERY_PRECISION)
def test_blocks_and_stops_change_no_bit(folder: Path, precision: str) -> None:
    encoder = Encoder.of(load(folder), precision, threads=2)
    uncached = Encoder.of(load(folder), precision, gate_cache_bytes=0)
    expected = encoder.encode_whole(SENTENCES)
    for block_steps, stop in (
        (1, never),
        (16, never),
        (200, never),
        (16, every(7)),
        (64, every(1)),
    ):
        for own in (encoder, uncached):
            run = own.encode(SENTENCES, block_steps=block_steps)
            stops = 0
            while not run.advance(stop):
                stops += 1
            assert (stops > 0) == (stop is not never)
            assert torch.equal(run.representations.layers, expected.layers)
            assert run.representations.lengths == expected.lengths
            assert run.advance()  # the end stays the end


def test_other_batches_are_computed_while_one_has_stopped(folder: Path) -> None:
    """They use the cache of input products, and may evict the words of the one that has stopped."""
    encoder = Encoder.of(load(folder), gate_cache_bytes=12 * 4 * 24 * 4 * 2)
    assert encoder.projections.capacity == 12
    expected = encoder.encode_whole(SENTENCES)
    run, others = encoder.encode(SENTENCES), itertools.count()
    while not run.advance(every(5)):
        encoder.embed([[f"other{next(others)}", f"other{next(others)}"] * 3])
    assert torch.equal(run.representations.layers, expected.layers)


def test_sentences_that_are_dropped_are_computed_no_further(folder: Path) -> None:
    encoder = Encoder.of(load(folder))
    expected = encoder.encode_whole(SENTENCES).sentences()
    run = encoder.encode(SENTENCES, block_steps=8)
    assert not run.advance(every(40))
    run.drop([1, 5])
    steps = itertools.count()
    assert run.advance(lambda: next(steps) < 0)
    assert next(steps) < 2 * 3 * (17 + 16)  # not those of the 90 tokens of sentence 1
    for number in (0, 2, 3, 4):
        assert torch.equal(run.representations.sentences()[number], expected[number])


def test_a_run_without_sentences_has_ended(folder: Path) -> None:
    encoder = Encoder.of(load(folder))
    run = encoder.encode(SENTENCES)
    assert not run.advance(every(1))
    run.drop(range(len(SENTENCES)))
    assert run.advance(lambda: pytest.fail("a step"))
    assert encoder.encode([]).advance() and encoder.encode([[], []]).advance()


def test_memory_besides_the_output_is_bounded_by_the_block(folder: Path) -> None:
    """The largest tensor, but for the output, is that of a short sentence."""
    encoder = Encoder.of(load(folder), gate_cache_bytes=0, threads=1)

    def largest(tokens: int) -> int:
        sentence = [f"w{place % 50}" for place in range(tokens)]
        list(encoder.words.encode(sentence)[1])  # new words pass the character CNN, many at once
        run = encoder.encode([sentence])
        sizes: list[int] = []
        with _Allocations(sizes, run.representations.layers):
            run.advance()
        return max(sizes)

    assert largest(400) == largest(130)


class _Allocations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the bytes of each tensor that an operator makes in this thread, but the output."""

    def __init__(self, sizes: list[int], output: torch.Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._sizes, self._output = sizes, output.untyped_storage().data_ptr()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        found = func(*args, **(kwargs or {}))
        if isinstance(found, torch.Tensor):
            memory = found.untyped_storage()
            self._sizes.append(0 if memory.data_ptr() == self._output else memory.nbytes())
        return found
