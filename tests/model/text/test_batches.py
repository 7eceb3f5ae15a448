"""Batches hold every sentence once, by length, within their bound."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elmo_model.text.batches import by_length


@given(st.lists(st.integers(0, 12), max_size=30), st.integers(1, 40))
def test_every_sentence_is_in_one_batch_within_the_bound(lengths: list[int], most: int) -> None:
    sentences = [["a"] * length for length in lengths]

    batches = list(by_length(range(len(lengths)), sentences, most))

    flat = [number for batch in batches for number in batch]
    assert sorted(flat) == list(range(len(lengths)))
    assert [lengths[number] for number in flat] == sorted(lengths, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or sum(lengths[number] + 2 for number in batch) <= most


def test_batches_are_even_and_take_every_sentence_once() -> None:
    generator = np.random.default_rng(3)
    for count, budget in ((1, 10), (50, 100), (700, 1024), (3, 1)):
        lengths = generator.integers(0, 60, count).tolist()
        cut = list(by_length(range(count), [range(length) for length in lengths], budget))
        assert sorted(row for batch in cut for row in batch) == list(range(count))
        costs = [sum(lengths[row] + 2 for row in batch) for batch in cut]
        assert all(c <= budget or len(b) == 1 for c, b in zip(costs, cut, strict=True))
        if count == 700:
            assert min(costs) > 0.9 * max(costs)
            assert len(cut) <= -(-sum(costs) // budget) + 1
