"""Batches are time steps of rows, and prefetched by a thread in chunks of bounded size."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from elmo_model.network.config import CharCNNConfig
from elmo_model.text.alphabets import Utf8Alphabet
from elmo_model.training.batches import Batches, CharacterTable, Direction, prefetched
from elmo_model.training.corpus import Corpus
from elmo_model.training.options import Options
from tests.support.training import corpus_of

SENTENCES = [["a", "bb", "a"], ["cccc", "bb"], ["dd"]] * 4


def table(chunk: int | None = 60, widest: int = 2) -> tuple[Corpus, CharacterTable]:
    corpus = corpus_of(SENTENCES)
    cnn = CharCNNConfig(262, 3, ((1, 3), (widest, 3)), 1, "relu", 50)
    return corpus, CharacterTable(corpus, corpus.vocabulary(6), Utf8Alphabet(), cnn, chunk)


def batches(
    seed: int | None = 1,
    rows: int = 2,
    samples: int = 3,
    chunk: int | None = 60,
) -> Batches:
    corpus, characters = table(chunk)
    options = Options(Path(), (), rows=rows, unroll=3, samples=samples)
    return Batches(corpus, characters, options, 6, seed)


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


def test_chunks_of_fixed_widths_have_the_same_words_and_rows_that_never_get_fewer() -> None:
    corpus, characters = table(chunk=None)
    numbers = np.arange(len(corpus.words))
    long = Utf8Alphabet().encode(corpus.words, 50)
    sizes = []
    for words in (numbers, numbers[:2], numbers[3:]):
        chunks, rows = characters.look_up(words)
        sizes.append([tuple(chunk.shape) for chunk in chunks])
        padded = [functional.pad(chunk, (0, 50 - chunk.shape[1]), value=-1) for chunk in chunks]
        for row, number in zip(rows, words, strict=True):
            found = torch.cat(padded)[row]
            assert found[found >= 0].tolist() == long[number][: int((found >= 0).sum())].tolist()
    assert sizes[0] == sizes[1] == sizes[2]


@pytest.mark.parametrize("widest", [16, 17, 50])
def test_no_chunk_is_narrower_than_the_widest_filter(widest: int) -> None:
    corpus, characters = table(None, widest)
    chunks, _ = characters.look_up(np.arange(len(corpus.words)))
    assert min(chunk.shape[1] for chunk in chunks) >= widest


def test_rows_become_steps_and_state_is_zero_at_the_starts_of_sentences() -> None:
    cells = np.arange(6).reshape(2, 3)
    starts = np.array([[0, 1, 0], [1, 0, 0]], dtype=bool)
    found = Direction.of(cells, cells + 6, starts)
    assert found.index.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert found.targets.tolist() == [[6, 9], [7, 10], [8, 11]]
    assert found.keep.squeeze(2).tolist() == [[True, False], [False, True], [True, True]]
    assert Direction.of(cells, cells).keep.all()
