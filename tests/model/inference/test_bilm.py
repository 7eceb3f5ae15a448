"""The biLM for inference: the vectors and the state of the trained one, however it computes."""

import numpy as np
import pytest
import torch
from torch import Tensor

from elmo_model.inference.batch_run import BatchRun
from elmo_model.inference.bilm import InferenceBiLM
from elmo_model.inference.caches import InputProjectionCache
from elmo_model.inference.threads import ParallelDirections
from elmo_model.inference.word_encoder import DistinctWords
from elmo_model.network.bilm import BiLM
from elmo_model.network.config import LSTMConfig
from elmo_model.network.state import State


def trained(cell: int = 8) -> BiLM:
    network = BiLM(LSTMConfig(2, cell, 4, 3.0, 3.0, True))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.7 * (8 / cell) ** 0.5, generator=generator)
    return network.eval()


def words(vectors: Tensor, index: list[int]) -> DistinctWords:
    return DistinctWords(
        tuple(map(str, range(len(vectors)))), vectors, np.array(index, dtype=np.int64)
    )


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
    fast = InferenceBiLM(network, "float32", ParallelDirections(threads))
    before = State(torch.randn(2, 5, 8) / 4, torch.randn(2, 5, 2 * cell) / 4)
    expected, after = network(given.vectors[given.index], LENGTHS, before)

    cache = InputProjectionCache(20, fast.project(given.vectors[:1]))
    for projections in (None, cache):
        run = BatchRun(fast, given, LENGTHS, before.take(3), projections=projections)
        assert run.advance()
        found, state = run.representations.layers, before.carry(run.state)
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)
        torch.testing.assert_close(state.h, after.h, rtol=0, atol=2e-5)
        torch.testing.assert_close(state.c, after.c, rtol=0, atol=2e-5)
        assert torch.equal(found[0, :, :4], given.vectors[given.index])  # layer 0, twice
        assert torch.equal(found[0, :, 4:], given.vectors[given.index])


@torch.inference_mode()
def test_no_sentences_return_the_state() -> None:
    fast = InferenceBiLM(trained(), "float32", ParallelDirections(1))
    state = State(torch.ones(2, 3, 8), torch.ones(2, 3, 16))
    run = BatchRun(fast, words(torch.zeros(0, 4), []), [], state.take(0))
    assert run.advance()
    assert run.representations.layers.shape == (3, 0, 8) and run.state.rows == 0
