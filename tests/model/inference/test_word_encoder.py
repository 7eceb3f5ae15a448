"""Words to vectors: those of the token embedder, each computed once, from its weights."""

from pathlib import Path

import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.inference.threads import ParallelDirections
from elmo_model.inference.word_encoder import WordEncoder
from elmo_model.network.elmo import ElmoNetwork
from tests.support.checkpoints import write_pair

WORDS = ["a", "rose", "is", "a", "rose", "", "長い言葉"]


@pytest.fixture
def elmo(tmp_path: Path) -> ElmoNetwork:
    return load(write_pair(tmp_path))


@torch.inference_mode()
def test_vectors_are_those_of_the_token_embedder(elmo: ElmoNetwork) -> None:
    encoder = WordEncoder(elmo.token_embedder, elmo.config, 100, ParallelDirections(1))
    for _ in range(2):  # computed, then from the cache
        found, parts = encoder.encode(WORDS)
        assert len(list(parts)) == 1
        assert [found.words[row] for row in found.index] == WORDS
        assert len(found.words) == 5
        torch.testing.assert_close(
            found.vectors[found.index], elmo.token_embedder(WORDS), rtol=0, atol=1e-6
        )
    assert (encoder.cache.hits, encoder.cache.misses) == (5, 5)


@torch.inference_mode()
def test_computing_leaves_the_cache_alone(elmo: ElmoNetwork) -> None:
    encoder = WordEncoder(elmo.token_embedder, elmo.config, 100, ParallelDirections(1))
    encoder.compute(["a"])
    assert (encoder.cache.size, encoder.cache.misses) == (0, 0)


def test_the_weights_lie_in_the_memory_of_the_embedder_and_are_not_trained(
    elmo: ElmoNetwork,
) -> None:
    encoder = WordEncoder(elmo.token_embedder, elmo.config, 100, ParallelDirections(1))
    assert not encoder.compute(["a"]).requires_grad
    assert all(parameter.requires_grad for parameter in elmo.parameters())
