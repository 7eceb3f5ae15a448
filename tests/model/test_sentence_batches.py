"""Batches hold every sentence once, in order of length, within their bound."""

from hypothesis import given
from hypothesis import strategies as st

from elmo_model.sentence_batches import by_length


@given(st.lists(st.integers(0, 12), max_size=30), st.integers(1, 40))
def test_every_sentence_is_in_one_batch_within_the_bound(lengths: list[int], most: int) -> None:
    sentences = [["a"] * length for length in lengths]

    batches = list(by_length(range(len(lengths)), sentences, most))

    flat = [number for batch in batches for number in batch]
    assert sorted(flat) == list(range(len(lengths)))
    assert [lengths[number] for number in flat] == sorted(lengths)
    for batch in batches:
        assert len(batch) == 1 or sum(lengths[number] + 2 for number in batch) <= most
