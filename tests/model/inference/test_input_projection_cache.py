"""The cache of input products: computed once, exact, bounded, never those of another word."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.inference.caches import LONGEST_WORD, InputProjectionCache, Projections
from elmo_model.inference.encoder import Encoder
from elmo_model.network.elmo import Elmo
from tests.support.golden import SMALL

SENTENCES = [
    ["The", "bank", "by", "the", "river", "."],
    [],
    ["The", "bank", "of", "the", "bank"],
    ["."],
    ["naïve", "東京", "", "The"],
]


class Compute:
    """Maps words of digits to that number, backwards its negative, and records these words."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.computed: list[str] = []

    def __call__(self, places: Sequence[int]) -> Projections:
        self.computed += [self.words[place] for place in places]
        numbers = torch.tensor([[float(self.words[place])] * 2 for place in places])
        return numbers, -numbers


def cache_of(capacity: int) -> InputProjectionCache:
    return InputProjectionCache(capacity, (torch.zeros(1, 2), torch.zeros(1, 2)))


def held(cache: InputProjectionCache, words: Sequence[str]) -> tuple[list[float] | None, list[str]]:
    """Return the forward products of some words, and the words that were computed."""
    compute = Compute(words)
    with cache.hold(words, compute) as known:
        if known is None:
            return None, compute.computed
        ahead, behind = (table.index_select(0, known.rows)[:, 1] for table in known.tables)
        assert torch.equal(ahead, -behind)
        return ahead.tolist(), compute.computed


def test_only_missing_words_are_computed() -> None:
    cache = cache_of(4)
    assert held(cache, ["1", "2"]) == ([1, 2], ["1", "2"])
    assert held(cache, ["3", "2", "1"]) == ([3, 2, 1], ["3"])
    assert held(cache, ["2", "3"]) == ([2, 3], [])


def test_no_word_of_a_batch_loses_its_row_to_another_one() -> None:
    cache = cache_of(3)
    held(cache, ["1", "2", "3"])
    assert held(cache, ["3", "4", "5"]) == ([3, 4, 5], ["4", "5"])
    assert held(cache, ["5", "1", "4"]) == ([5, 1, 4], ["1"])


def test_a_batch_with_more_words_than_fit_is_computed_without_the_cache() -> None:
    cache = cache_of(2)
    assert held(cache, ["1", "2", "3"]) == (None, [])
    assert held(cache, ["1", "2"]) == ([1, 2], ["1", "2"])
    assert held(cache_of(0), ["1"]) == (None, [])


def test_a_batch_with_a_word_longer_than_any_word_is_computed_without_the_cache() -> None:
    cache = cache_of(4)
    longest, longer = "1".zfill(LONGEST_WORD), "2".zfill(LONGEST_WORD + 1)
    assert held(cache, ["3", longer]) == (None, [])
    assert held(cache, ["3", longest]) == ([3, 1], ["3", longest])


def test_a_batch_that_finds_the_cache_held_is_computed_without_it() -> None:
    cache = cache_of(2)
    with cache.hold(["1"], Compute(["1"])) as known, ThreadPoolExecutor(1) as other:
        assert other.submit(held, cache, ["2"]).result() == (None, [])
        assert known is not None and float(known.tables[0][known.rows[0], 0]) == 1
    assert held(cache, ["2"]) == ([2], ["2"])


def test_an_exception_releases_the_cache_and_keeps_nothing() -> None:
    cache = cache_of(2)

    def fail(places: Sequence[int]) -> Projections:
        raise RuntimeError(f"no products for {places}")

    with pytest.raises(RuntimeError, match="no products"), cache.hold(["1"], fail):
        pass
    assert held(cache, ["1"]) == ([1], ["1"])


def test_clearing_forgets_every_word() -> None:
    cache = cache_of(2)
    held(cache, ["1"])
    cache.clear()
    assert held(cache, ["1"]) == ([1], ["1"])


def test_a_word_costs_the_bytes_of_its_products() -> None:
    like = (torch.zeros(2, 6), torch.zeros(2, 6))
    assert InputProjectionCache.of_size(10 * 2 * 6 * 4, like).capacity == 10
    assert InputProjectionCache.of_size(10 * 2 * 6 * 4 - 1, like).capacity == 9
    halves = tuple(each.to(torch.bfloat16) for each in like)
    assert InputProjectionCache.of_size(10 * 2 * 6 * 4, halves).capacity == 20  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    return load(SMALL)


@pytest.mark.parametrize("words", [0, 3, 9, 1000])
def test_vectors_are_the_same_for_every_capacity(elmo: Elmo, words: int) -> None:
    encoder = Encoder.of(elmo, gate_cache_bytes=words * row_bytes(elmo))
    assert encoder.projections.capacity == words
    source = random.Random(words)
    for _ in range(6):  # words are added and dropped
        batch = [*source.choices(SENTENCES, k=3), [str(source.randrange(30))] * 2]
        for found, expected in zip(encoder.embed(batch), elmo.embed(batch), strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)


def row_bytes(elmo: Elmo) -> int:
    """Return the bytes of a word's products in float32, both directions."""
    return 2 * 4 * elmo.config.lstm.cell * 4
