"""The token cache: bounded, least recently used out first, counted, safe between threads."""

import copy
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from elmo_model.inference.word_cache import TokenCache


class Embed:
    """Words of digits to vectors of that number; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, words: Sequence[str]) -> Tensor:
        self.asked.append(list(words))
        return torch.tensor([[float(word)] * 3 for word in words]).reshape(len(words), 3)


def test_only_words_that_are_not_held_are_computed() -> None:
    cache, embed = TokenCache(10), Embed()
    cache.look_up(["1", "2"], embed)
    vectors = cache.look_up(["3", "2", "1", "4"], embed)
    assert embed.asked == [["1", "2"], ["3", "4"]]
    assert vectors[:, 0].tolist() == [3, 2, 1, 4]
    assert (cache.hits, cache.misses, cache.size) == (2, 4, 4)


def test_the_least_recently_used_word_leaves_first() -> None:
    cache, embed = TokenCache(3), Embed()
    cache.look_up(["1", "2", "3"], embed)
    cache.look_up(["1"], embed)
    cache.look_up(["4"], embed)
    cache.look_up(["1", "3", "4"], embed)
    assert embed.asked == [["1", "2", "3"], ["4"]]
    cache.look_up(["2"], embed)
    assert embed.asked[-1] == ["2"]
    assert cache.size == 3


@pytest.mark.parametrize("capacity", [0, 1, 2, 5, 2000])
def test_a_batch_with_more_words_than_the_cache_holds_is_answered_in_full(capacity: int) -> None:
    cache, embed = TokenCache(capacity), Embed()
    cache.look_up(["7", "8"], embed)
    for words in (["8", *map(str, range(10, 1500))], ["1499", "7", "12"]):
        vectors = cache.look_up(words, embed)
        assert vectors[:, 2].tolist() == [float(word) for word in words]
        assert cache.size <= capacity
    assert cache.hits + cache.misses == 2 + 1491 + 3


def test_no_words_are_no_vectors() -> None:
    assert TokenCache(4).look_up([], Embed()).shape == (0, 3)


def test_what_inference_mode_stored_can_be_used_and_added_to_outside_of_it() -> None:
    cache, embed = TokenCache(4), Embed()
    with torch.inference_mode():
        cache.look_up(["1"], embed)
    with torch.no_grad():
        vectors = cache.look_up(["1", "2"], embed)
    weight = torch.ones(3, requires_grad=True)
    torch.autograd.backward((vectors * weight).sum())
    assert weight.grad is not None and weight.grad.tolist() == [3, 3, 3]


def test_a_copy_starts_empty() -> None:
    cache = TokenCache(4)
    cache.look_up(["1"], Embed())
    assert (copy.deepcopy(cache).size, copy.deepcopy(cache).capacity) == (0, 4)


def test_clearing_forgets_words_and_keeps_the_counts() -> None:
    cache, embed = TokenCache(4), Embed()
    cache.look_up(["1"], embed)
    cache.clear()
    cache.look_up(["1"], embed)
    assert (cache.hits, cache.misses, len(embed.asked)) == (0, 2, 2)


def test_threads_share_a_cache_without_mixing_words() -> None:
    cache = TokenCache(50)

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


def test_a_negative_capacity_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity is -1, expected 0 or more"):
        TokenCache(-1)
