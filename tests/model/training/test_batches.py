"""Batches are packed by segments, and prefetched by a thread in chunks of bounded size."""

from dataclasses import replace

import numpy as np
import pytest

from elmo_model.network.config import CharCNNConfig
from elmo_model.text.alphabets import Utf8Alphabet
from elmo_model.training.batches import Batches, CharacterTable, Direction, prefetched
from elmo_model.training.corpus import Corpus
from elmo_model.training.recipe import RECIPES
from tests.support.corpora import corpus_of

SENTENCES = [["a", "bb", "a"], ["cccc", "bb"], ["dd"]] * 4


def table(chunk: int = 60) -> tuple[Corpus, CharacterTable]:
    corpus = corpus_of(SENTENCES)
    cnn = CharCNNConfig(262, 3, ((1, 3), (2, 3)), 1, "relu", 50)
    return corpus, CharacterTable(corpus, corpus.vocabulary(6), Utf8Alphabet(), cnn, chunk)


def batches(
    seed: int | None = 1, share: tuple[int, int] = (0, 1), rows: int = 2, samples: int = 3
) -> Batches:
    corpus, characters = table()
    recipe = replace(RECIPES["modern"], rows=rows, unroll=3, samples=samples)
    return Batches(corpus, characters, recipe, 6, seed, share)


def test_distinct_words_are_cut_into_chunks_of_similar_length() -> None:
    corpus, characters = table(chunk=20)
    numbers = np.arange(len(corpus.words))
    chunks, rows = characters.look_up(np.concatenate((numbers, numbers)))
    assert sum(len(chunk) for chunk in chunks) == len(corpus.words) and len(chunks) > 1
    assert sorted(set(rows.tolist())) == numbers.tolist()
    assert all(chunk.numel() <= 20 or len(chunk) == 1 for chunk in chunks)


def test_prefetched_batches_are_those_of_the_stream() -> None:
    expected = [batches().next_batch(0)]
    with prefetched(batches(), 0, pinned=False) as found:
        first = next(found)
    assert expected[0] is not None
    assert first.directions[0].index.equal(expected[0].directions[0].index)
    assert first.directions[1].candidates.equal(expected[0].directions[1].candidates)


def test_an_error_of_the_thread_is_raised_where_the_batch_is_taken() -> None:
    with (
        prefetched(batches(samples=99), 0, pinned=False) as found,
        pytest.raises(ValueError, match="candidates are 99"),
    ):
        next(found)


def test_the_end_of_a_text_that_is_read_once_ends_the_batches() -> None:
    with prefetched(batches(seed=None), 0, pinned=False) as found:
        assert len(list(found)) == 6  # 36 pairs, 6 a batch


def test_rows_with_carried_state_are_packed_step_by_step() -> None:
    cells = np.arange(6).reshape(2, 3)
    found = Direction.of(cells, cells)
    assert found.index.tolist() == found.targets.tolist() == [0, 3, 1, 4, 2, 5]
    assert found.sizes == (2, 2, 2)
    assert found.before.tolist() == found.after.tolist() == [0, 1]


def test_segments_are_packed_in_descending_order_of_length() -> None:
    cells = np.arange(12).reshape(3, 4)
    starts = np.array([[0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0]], dtype=bool)
    found = Direction.of(cells, cells, starts)
    # segments by length: row 1 whole, row 2 from 1, row 0 to 1, row 0 from 2, row 2 first cell
    assert found.sizes == (5, 4, 2, 1)
    assert found.index.tolist() == [4, 9, 0, 2, 8, 5, 10, 1, 3, 6, 11, 7]
    assert found.before.tolist() == [3, 3, 0, 3, 2]  # 3: zero state, at a sentence start
    assert found.after.tolist() == [3, 0, 1]
