"""Rows are always full, an epoch reads every sentence once, and a cursor holds the position."""

from itertools import pairwise

import numpy as np
import pytest

from elmo_model.training.row_stream import Rows, RowStream
from tests.support.training import corpus_of

SENTENCES = [[f"w{s}.{t}" for t in range(length)] for s, length in enumerate([3, 1, 7, 2, 5] * 4)]
CORPUS = corpus_of(SENTENCES)


def stream(seed: int | None = 5, *, backward: bool = False, rows: int = 4) -> RowStream:
    return RowStream(CORPUS, rows, 3, backward=backward, seed=seed)


def batches(source: RowStream, count: int) -> list[np.ndarray]:
    return [both(source.next_batch()) for _ in range(count)]


def both(rows: Rows | None) -> np.ndarray:
    assert rows is not None
    return np.stack((rows.inputs, rows.targets))


@pytest.mark.parametrize("backward", [False, True])
def test_an_epoch_has_every_pair_once(backward: bool) -> None:
    source, pairs = stream(backward=backward, rows=1), []
    for _ in range(CORPUS.pairs // 3):
        inputs, targets = both(source.next_batch())
        pairs += list(zip(inputs.ravel().tolist(), targets.ravel().tolist(), strict=True))
    words = [CORPUS.tokens[a:b].tolist() for a, b in pairwise(CORPUS.starts)]
    if backward:
        words = [sentence[::-1] for sentence in words]
    expected = [pair for sentence in words for pair in pairwise(sentence)]
    assert set(pairs) <= set(expected)
    assert len(set(pairs)) == len(pairs) == CORPUS.pairs - CORPUS.pairs % 3


def test_a_row_continues_where_it_stopped() -> None:
    source = stream()
    row = np.concatenate([batch[:, 0] for batch in batches(source, 6)], axis=1)
    inputs, targets = row
    for here, then in zip(targets[:-1], inputs[1:], strict=True):
        # the target is the next input, except </S>, which is followed by <S>
        assert (here, then) == (1, 0) or here == then


def test_epochs_directions_and_seeds_differ_in_order() -> None:
    first, again, other = (batches(stream(seed), 30) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert (np.array(first) != np.array(other)).any()
    epoch = CORPUS.pairs // 12
    assert (np.array(first[:epoch]) != np.array(first[epoch : 2 * epoch])).any()
    back = np.array(batches(stream(backward=True), 3))
    assert (back[:, 0] != np.array(first[:3])[:, 1]).any()


def test_a_stream_continues_from_a_cursor() -> None:
    source = stream()
    batches(source, 17)
    cursor = source.cursor()
    expected = batches(source, 20)
    other = stream()
    other.restore(cursor)
    np.testing.assert_array_equal(batches(other, 20), expected)


def test_without_a_seed_the_text_is_read_once_in_order() -> None:
    source = stream(None, rows=1)
    read = []
    while (rows := source.next_batch()) is not None:
        assert (rows.begins == (rows.inputs == 0)).all()
        read += [CORPUS.words[number] for number in rows.inputs.ravel()]
    text = [word for sentence in SENTENCES for word in ("<S>", *sentence)]
    assert read == text[: len(text) - len(text) % 3]
