"""The gates of frequent words: made once, exact, bounded, and never another word's."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from elmo_model.checkpoints import load
from elmo_model.elmo import Elmo
from elmo_model.inference.input_projection_cache import GateCache, Gates
from elmo_model.pretrained import load_built_in
from tests.support.golden import SMALL

SENTENCES = [
    ["The", "bank", "by", "the", "river", "."],
    [],
    ["The", "bank", "of", "the", "bank"],
    ["."],
    ["naïve", "東京", "", "The"],
]


class Compute:
    """Gates of words that are numbers: the number, backwards its negative; remembers them."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.asked: list[str] = []

    def __call__(self, places: Sequence[int]) -> Gates:
        self.asked += [self.words[place] for place in places]
        numbers = torch.tensor([[float(self.words[place])] * 2 for place in places])
        return numbers, -numbers


def held(cache: GateCache, words: Sequence[str]) -> tuple[list[float] | None, list[str]]:
    """Return the forward gates of some words, and those that were computed for it."""
    compute = Compute(words)
    with cache.hold(words, compute) as known:
        if known is None:
            return None, compute.asked
        ahead, behind = (table.index_select(0, known.rows)[:, 1] for table in known.tables)
        assert torch.equal(ahead, -behind)
        return ahead.tolist(), compute.asked


def test_only_words_that_are_not_held_are_computed() -> None:
    cache = GateCache(4)
    assert held(cache, ["1", "2"]) == ([1, 2], ["1", "2"])
    assert held(cache, ["3", "2", "1"]) == ([3, 2, 1], ["3"])
    assert held(cache, ["2", "3"]) == ([2, 3], [])


def test_no_word_of_a_batch_is_given_away_for_another_of_it() -> None:
    cache = GateCache(3)
    held(cache, ["1", "2", "3"])
    assert held(cache, ["3", "4", "5"]) == ([3, 4, 5], ["4", "5"])
    assert held(cache, ["5", "1", "4"]) == ([5, 1, 4], ["1"])


def test_a_batch_with_more_words_than_fit_goes_without() -> None:
    cache = GateCache(2)
    assert held(cache, ["1", "2", "3"]) == (None, [])
    assert held(cache, ["1", "2"]) == ([1, 2], ["1", "2"])
    assert held(GateCache(0), ["1"]) == (None, [])
    with pytest.raises(ValueError, match="-1"):
        GateCache(-1)


def test_who_finds_it_held_goes_without() -> None:
    cache = GateCache(2)
    with cache.hold(["1"], Compute(["1"])) as known, ThreadPoolExecutor(1) as other:
        assert other.submit(held, cache, ["2"]).result() == (None, [])
        assert known is not None and float(known.tables[0][known.rows[0], 0]) == 1
    assert held(cache, ["2"]) == ([2], ["2"])


def test_what_raises_leaves_nothing_behind() -> None:
    cache = GateCache(2)

    def fail(places: Sequence[int]) -> Gates:
        raise RuntimeError(f"no gates for {places}")

    with pytest.raises(RuntimeError, match="no gates"), cache.hold(["1"], fail):
        pass
    assert held(cache, ["1"]) == ([1], ["1"])


def test_cleared_it_holds_nothing() -> None:
    cache = GateCache(2)
    held(cache, ["1"])
    cache.clear()
    assert held(cache, ["1"]) == ([1], ["1"])


@pytest.fixture(scope="module")
def plain() -> Elmo:
    """The golden network, never prepared: it looks no gates up."""
    return load(SMALL)


@pytest.mark.parametrize("words", [0, 3, 9, 1000])
def test_vectors_are_the_same_however_many_words_it_holds(plain: Elmo, words: int) -> None:
    prepared = load(SMALL).prepare(gate_cache_bytes=1)
    assert prepared.gate_cache.capacity == 0
    elmo = load(SMALL)
    elmo.prepare(gate_cache_bytes=words * row_bytes(elmo))
    assert elmo.gate_cache.capacity == words
    source = random.Random(words)
    for _ in range(6):  # as words come and go
        batch = [*source.choices(SENTENCES, k=3), [str(source.randrange(30))] * 2]
        for ours, expected in zip(elmo.embed(batch), plain.embed(batch), strict=True):
            assert_near(ours, expected)


def test_a_word_costs_what_its_gates_take() -> None:
    elmo = load(SMALL)
    elmo.prepare("bfloat16", gate_cache_bytes=10 * row_bytes(elmo))
    assert elmo.gate_cache.capacity in (10, 20)  # bfloat16 where the processor multiplies it


def test_threads_share_a_network() -> None:
    elmo = load_built_in("english").prepare()
    alone = elmo.embed(SENTENCES)

    def ask(seed: int) -> bool:
        order = random.Random(seed).sample(range(len(SENTENCES)), len(SENTENCES))
        found = elmo.embed([SENTENCES[place] for place in order])
        return all(
            torch.allclose(vectors, alone[place], atol=1e-4)
            for place, vectors in zip(order, found, strict=True)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(40)))


def row_bytes(elmo: Elmo) -> int:
    """Bytes of a word's gates in float32, both directions."""
    return 2 * 4 * elmo.config.lstm.cell * 4


def assert_near(ours: Tensor, expected: Tensor) -> None:
    assert ours.shape == expected.shape
    torch.testing.assert_close(ours, expected, rtol=0, atol=2e-5)
