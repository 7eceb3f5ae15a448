"""A batch in blocks of time steps: exact, the same bits however it stops, bounded, cancelled."""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from elmo_model.checkpoints import load
from elmo_model.inference.batch_run import BatchRun, InferenceBiLM, never_stop
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.linear import has_eight_bits
from elmo_model.inference.precision import PRECISIONS
from elmo_model.inference.word_encoder import TokenVectors
from elmo_model.network.bilm import BiLM
from elmo_model.network.config import LSTMConfig
from elmo_model.network.state import State
from elmo_model.threads import ParallelDirections
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
        (1, never_stop),
        (16, never_stop),
        (200, never_stop),
        (16, every(7)),
        (64, every(1)),
    ):
        for own in (encoder, uncached):
            run = own.encode(SENTENCES, block_steps=block_steps)
            stops = 0
            while not run.advance(stop):
                stops += 1
            assert (stops > 0) == (stop is not never_stop)
            assert torch.equal(run.representations.layers, expected.layers)
            assert run.representations.lengths == expected.lengths
            assert run.advance()  # the end stays the end


def test_other_batches_are_computed_while_one_has_stopped(folder: Path) -> None:
    """They use both caches, and evict no word of the one that has stopped."""
    encoder = Encoder.of(load(folder), token_cache_size=12, gate_cache_bytes=12 * 4 * 24 * 4 * 2)
    assert encoder.bilm.projections.capacity == 12
    expected = encoder.encode_whole(SENTENCES)
    run, others = encoder.encode(SENTENCES), itertools.count()
    while not run.advance(every(5)):
        encoder.embed([[f"other{next(others)}", f"other{next(others)}"] * 3])
    assert torch.equal(run.representations.layers, expected.layers)


def test_a_run_that_has_ended_keeps_no_word_in_the_cache(folder: Path) -> None:
    encoder = Encoder.of(load(folder), token_cache_size=2)
    encoder.embed([["a", "b"]])
    run = encoder.encode([["a", "b"]])
    assert run.advance()
    for _ in range(2):
        encoder.embed([["c", "d"]])
    assert encoder.word_cache.hits == 2 + 2  # of the run, and of the second batch after it


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
        with torch.inference_mode():
            list(encoder.words.encode(sentence)[1])  # new words pass the CNN, many at once
        run = encoder.encode([sentence])
        sizes: list[int] = []
        with _Allocations(sizes, run.representations.layers):
            run.advance()
        return max(sizes)

    assert largest(260) == largest(130)


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


def test_a_run_that_has_failed_gives_no_vectors(folder: Path) -> None:
    """An exception ends its computation, so that going on would find nothing left to do."""
    run = Encoder.of(load(folder)).encode(SENTENCES)
    steps = itertools.count()

    def fail() -> bool:
        if next(steps) == 7:
            raise MemoryError
        return False

    with pytest.raises(MemoryError):
        run.advance(fail)
    with pytest.raises(RuntimeError, match="MemoryError"):
        run.advance()


def test_a_word_of_the_cache_costs_the_bytes_of_its_products() -> None:
    one = 2 * 4 * 8 * 4  # directions, gates, cells, bytes of float32
    for size, capacity in ((0, 0), (10 * one, 10), (10 * one - 1, 9)):
        fast = InferenceBiLM(trained(8), "float32", ParallelDirections(1), size)
        assert fast.projections.capacity == capacity


def trained(cell: int = 8) -> BiLM:
    network = BiLM(LSTMConfig(2, cell, 4, 3.0, 3.0, True))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.7 * (8 / cell) ** 0.5, generator=generator)
    return network.eval()


def words(vectors: Tensor, index: list[int]) -> TokenVectors:
    return TokenVectors(list(map(str, index)), vectors, np.array(index, dtype=np.int64))


DISTINCT = list(range(9))
REPEATED = [0, 1, 0, 2, 2, 1, 0, 0, 1]
LENGTHS = [2, 6, 1]


@pytest.mark.parametrize("cell", [8, 2048])  # one core for both directions, and one for each
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("index", [DISTINCT, REPEATED])
@torch.inference_mode()
def test_vectors_and_state_are_those_of_the_trained_network(
    index: list[int], threads: int, cell: int
) -> None:
    network, given = trained(cell), words(torch.randn(max(index) + 1, 4), index)
    before = State(torch.randn(2, 5, 8) / 4, torch.randn(2, 5, 2 * cell) / 4)
    expected, after = network(given.vectors[given.index], LENGTHS, before)

    for cache_bytes in (0, 1 << 20):
        fast = InferenceBiLM(network, "float32", ParallelDirections(threads), cache_bytes)
        run = BatchRun(fast, given, LENGTHS, before.take(3))
        assert run.advance()
        found, state = run.representations.layers, before.carry(run.state)
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)
        torch.testing.assert_close(state.h, after.h, rtol=0, atol=2e-5)
        torch.testing.assert_close(state.c, after.c, rtol=0, atol=2e-5)
        assert torch.equal(found[0, :, :4], given.vectors[given.index])  # layer 0, twice
        assert torch.equal(found[0, :, 4:], given.vectors[given.index])
