"""Words to vectors behind a cache: bounded, least recently used, counted, thread-safe."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor

from elmo_model.checkpoints import load
from elmo_model.inference.caches import LONGEST_WORD, WordCache
from elmo_model.inference.threads import ParallelDirections
from elmo_model.inference.word_encoder import WordEncoder
from elmo_model.network.elmo import Elmo
from tests.support.checkpoints import write_pair


class Embed:
    """Maps words of digits to vectors of that number and records the words it computed."""

    def __init__(self) -> None:
        self.computed: list[list[str]] = []

    def __call__(self, words: Sequence[str]) -> Tensor:
        self.computed.append(list(words))
        return torch.tensor([[float(word)] * 3 for word in words]).reshape(len(words), 3)


def test_only_missing_words_are_computed() -> None:
    cache, embed = WordCache(10), Embed()
    cache.look_up(["1", "2"], embed)
    vectors = cache.look_up(["3", "2", "1", "4"], embed)
    assert embed.computed == [["1", "2"], ["3", "4"]]
    assert vectors[:, 0].tolist() == [3, 2, 1, 4]
    assert (cache.hits, cache.misses, cache.size) == (2, 4, 4)


def test_the_least_recently_used_word_is_dropped_first() -> None:
    cache, embed = WordCache(3), Embed()
    cache.look_up(["1", "2", "3"], embed)
    cache.look_up(["1"], embed)
    cache.look_up(["4"], embed)
    cache.look_up(["1", "3", "4"], embed)
    assert embed.computed == [["1", "2", "3"], ["4"]]
    cache.look_up(["2"], embed)
    assert embed.computed[-1] == ["2"]
    assert cache.size == 3


@pytest.mark.parametrize("capacity", [0, 1, 2, 5, 2000])
def test_a_batch_may_have_more_words_than_fit(capacity: int) -> None:
    cache, embed = WordCache(capacity), Embed()
    cache.look_up(["7", "8"], embed)
    for words in (["8", *map(str, range(10, 1500))], ["1499", "7", "12"]):
        vectors = cache.look_up(words, embed)
        assert vectors[:, 2].tolist() == [float(word) for word in words]
        assert cache.size <= capacity
    assert cache.hits + cache.misses == 2 + 1491 + 3


def test_a_word_longer_than_any_word_is_not_kept() -> None:
    cache, embed = WordCache(10), Embed()
    longest, longer = "1".zfill(LONGEST_WORD), "2".zfill(LONGEST_WORD + 1)
    for _ in range(2):
        vectors = cache.look_up([longer, longest, "3"], embed)
        assert vectors[:, 0].tolist() == [2, 1, 3]
    assert embed.computed == [[longer, longest, "3"], [longer]]
    assert cache.size == 2


def test_no_words_give_no_vectors() -> None:
    assert WordCache(4).look_up([], Embed()).shape == (0, 3)


def test_clearing_forgets_words_and_keeps_the_counts() -> None:
    cache, embed = WordCache(4), Embed()
    cache.look_up(["1"], embed)
    cache.clear()
    cache.look_up(["1"], embed)
    assert (cache.hits, cache.misses, len(embed.computed)) == (0, 2, 2)


def test_threads_share_a_cache() -> None:
    cache = WordCache(50)

    def ask(seed: int) -> bool:
        embed, right = Embed(), True
        generator = torch.Generator().manual_seed(seed)
        for _ in range(200):
            words = [
                str(number) for number in torch.randperm(200, generator=generator)[:20].tolist()
            ]
            right &= cache.look_up(words, embed)[:, 1].tolist() == [float(word) for word in words]
        return right

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(4)))
    assert cache.size <= 50
    assert cache.hits + cache.misses == 4 * 200 * 20


WORDS = ["a", "rose", "is", "a", "rose", "", "長い言葉"]


@pytest.fixture
def elmo(tmp_path: Path) -> Elmo:
    return load(write_pair(tmp_path))


@torch.inference_mode()
def test_vectors_are_those_of_the_token_embedder(elmo: Elmo) -> None:
    encoder = WordEncoder(elmo.token_embedder, elmo.config, 100, ParallelDirections(1))
    for _ in range(2):  # computed, then from the cache
        found, parts = encoder.encode(WORDS)
        assert len(list(parts)) == 1
        assert found.words == ("a", "rose", "is", "", "長い言葉")
        assert found.index.tolist() == [0, 1, 2, 0, 1, 3, 4]
        torch.testing.assert_close(
            found.vectors[found.index], elmo.token_embedder(WORDS), rtol=0, atol=1e-6
        )
    assert (encoder.cache.hits, encoder.cache.misses) == (5, 5)


@torch.inference_mode()
def test_computing_leaves_the_cache_alone(elmo: Elmo) -> None:
    encoder = WordEncoder(elmo.token_embedder, elmo.config, 100, ParallelDirections(1))
    encoder.compute(["a"])
    assert (encoder.cache.size, encoder.cache.misses) == (0, 0)


def test_the_weights_lie_in_the_memory_of_the_embedder_and_are_not_trained(elmo: Elmo) -> None:
    encoder = WordEncoder(elmo.token_embedder, elmo.config, 100, ParallelDirections(1))
    assert not encoder.compute(["a"]).requires_grad
    assert all(parameter.requires_grad for parameter in elmo.parameters())
