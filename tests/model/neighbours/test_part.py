"""A part: numbers of words, places of tokens, the tokens of each word, the most frequent words."""

from pathlib import Path

import numpy as np
import pytest

from elmo_model.neighbours import store
from elmo_model.neighbours.part import Postings, most_frequent, word_numbers
from elmo_model.neighbours.text import IndexFolderError
from elmo_model.neighbours.writer import PartWriter
from tests.support.neighbours import LAYERS, WIDTH, centre_of, made_up, manifest_of

SENTENCES = [["a", "b"], [], ["b", "c", "a"]]


def test_words_are_numbered_where_they_come_first() -> None:
    numbers, new = word_numbers(SENTENCES, {})

    assert numbers.tolist() == [0, 1, 1, 2, 0]
    assert new == ["a", "b", "c"]


def test_known_words_keep_their_numbers() -> None:
    numbers, new = word_numbers(SENTENCES, {"c": 0, "x": 1})

    assert numbers.tolist() == [2, 3, 3, 0, 2]
    assert new == ["a", "b"]


def test_a_token_is_in_its_sentence() -> None:
    part = PartWriter(SENTENCES, centre_of(made_up(SENTENCES)), {}).finish()

    assert [part.place(token) for token in range(5)] == [(0, 2), (0, 2), (2, 5), (2, 5), (2, 5)]
    assert (part.tokens, part.sentences) == (5, 3)


TOKEN_WORDS = np.array([5, 2, 5, 9, 2, 5], np.uint32)


def tokens_of(postings: Postings, words: list[int]) -> list[list[int]]:
    ranges = zip(*postings.ranges(np.array(words, np.int64)), strict=True)
    return [postings.tokens[start:end].tolist() for start, end in ranges]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([5], [[0, 2, 5]]),
        ([9, 2], [[3], [1, 4]]),
        ([0, 3, 10], [[], [], []]),
        ([], []),
    ],
)
def test_the_tokens_of_words_are_found_in_the_order_of_the_text(
    words: list[int], expected: list[list[int]]
) -> None:
    assert tokens_of(Postings.of(TOKEN_WORDS), words) == expected


def test_a_part_without_tokens_has_no_word() -> None:
    assert tokens_of(Postings.of(np.empty(0, np.uint32)), [0, 1]) == [[], []]


def test_words_are_counted_over_all_parts() -> None:
    first, second = [["a", "b", "c", "c"]], [["d", "b", "d", "d", "c", "c"]]
    centre = centre_of(made_up(first))
    parts = [
        PartWriter(first, centre, {}).finish(),
        PartWriter(second, centre, {"a": 0, "b": 1, "c": 2}).finish(),
    ]

    assert most_frequent(parts).tolist() == [2, 3, 1, 0]
    assert most_frequent(parts, 2).tolist() == [2, 3]


WRITTEN = [["a", "b"], ["b", "c", "a"], ["d"]]
OF_WRITTEN = made_up(WRITTEN)
CENTRE = centre_of(OF_WRITTEN)


def test_vectors_are_less_the_centre() -> None:
    writer = PartWriter(WRITTEN, CENTRE, {})
    for number in (2, 0, 1):
        writer.write(number, OF_WRITTEN[number])
    part = writer.finish()

    exact = np.concatenate(OF_WRITTEN, axis=1) - CENTRE[:, np.newaxis]
    tokens = np.arange(6)
    for layer in range(1, LAYERS):
        np.testing.assert_allclose(part.layer(layer, tokens), exact[layer], rtol=1e-3, atol=1e-6)
    words = part.word_vectors[part.token_words.astype(np.int64)]
    np.testing.assert_allclose(words, exact[0], rtol=1e-3, atol=1e-6)
    assert set(part.searches) == {"1", "2", "average"}


def test_words_of_earlier_parts_are_not_kept_again() -> None:
    writer = PartWriter(WRITTEN, CENTRE, {"b": 0, "d": 1})
    for number, vectors in enumerate(OF_WRITTEN):
        writer.write(number, vectors)
    part = writer.finish()

    assert [part.words[row] for row in range(len(part.words))] == ["a", "c"]
    expected = OF_WRITTEN[1][0, [2, 1]] - CENTRE[0]
    np.testing.assert_allclose(part.word_vectors, expected, rtol=1e-3, atol=1e-6)
    assert part.first_word == 2


@pytest.mark.parametrize("value", [np.nan, np.inf, 70_000])
def test_a_number_beyond_float16_is_refused(value: float) -> None:
    layers = np.zeros((LAYERS, 2, WIDTH), np.float32)
    layers[1, 1, 3] = value

    with pytest.raises(IndexFolderError, match="do not fit into float16"):
        PartWriter([["a", "b"]], np.zeros((LAYERS, WIDTH), np.float32), {}).write(0, layers)


KEPT = [["a", "b"], [], ["\ud800", "a"]]
OF_KEPT = made_up(KEPT)


@pytest.mark.parametrize("known", [{}, {"a": 0, "b": 1, "\ud800": 2}], ids=["new", "known"])
def test_a_part_is_read_as_it_was_written(tmp_path: Path, known: dict[str, int]) -> None:
    writer = PartWriter(KEPT, centre_of(OF_KEPT), known, tmp_path)
    for number, layers in enumerate(OF_KEPT):
        writer.write(number, layers)
    part = writer.finish()
    store.save_part(part, tmp_path)

    read = store.open_part(tmp_path, store.sizes(tmp_path), len(known), manifest_of())

    assert [read.words[row] for row in range(len(read.words))] == [
        word for word in ("a", "b", "\ud800") if word not in known
    ]
    for name in ("word_vectors", "token_words", "sentence_starts"):
        np.testing.assert_array_equal(getattr(read, name), getattr(part, name))
    words = np.arange(4)
    np.testing.assert_array_equal(read.postings.ranges(words), part.postings.ranges(words))
    np.testing.assert_array_equal(read.postings.tokens, part.postings.tokens)
    for layer in range(1, LAYERS):
        tokens = np.arange(4)
        np.testing.assert_array_equal(read.layer(layer, tokens), part.layer(layer, tokens))
    assert read.searches.keys() == part.searches.keys()


def test_a_manifest_without_the_words_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(IndexFolderError, match=r"the manifest names no words\.bin"):
        store.open_part(tmp_path, {}, 0, manifest_of())
