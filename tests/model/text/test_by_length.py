"""Batches hold every sentence once, by length, within their bound."""

import numpy as np

from elmo_model.text.by_length import by_length


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
