"""A part holds the centred vectors of its tokens, whatever the order of its sentences."""

import numpy as np
import pytest

from elmo_model.neighbours.text import IndexFolderError
from elmo_model.neighbours.writer import PartWriter
from tests.support.neighbours import LAYERS, WIDTH, centre_of, made_up

SENTENCES = [["a", "b"], ["b", "c", "a"], ["d"]]
VECTORS = made_up(SENTENCES)
CENTRE = centre_of(VECTORS)


def test_vectors_are_less_the_centre() -> None:
    writer = PartWriter(SENTENCES, CENTRE, {})
    for number in (2, 0, 1):
        writer.write(number, VECTORS[number])
    part = writer.finish()

    exact = np.concatenate(VECTORS, axis=1) - CENTRE[:, np.newaxis]
    tokens = np.arange(6)
    for layer in range(1, LAYERS):
        np.testing.assert_allclose(part.layer(layer, tokens), exact[layer], rtol=1e-3, atol=1e-6)
    words = part.word_vectors[part.token_words.astype(np.int64)]
    np.testing.assert_allclose(words, exact[0], rtol=1e-3, atol=1e-6)
    assert set(part.searches) == {"1", "2", "average"}


def test_words_of_earlier_parts_are_not_kept_again() -> None:
    writer = PartWriter(SENTENCES, CENTRE, {"b": 0, "d": 1})
    for number, vectors in enumerate(VECTORS):
        writer.write(number, vectors)
    part = writer.finish()

    assert [part.words[row] for row in range(len(part.words))] == ["a", "c"]
    expected = VECTORS[1][0, [2, 1]] - CENTRE[0]
    np.testing.assert_allclose(part.word_vectors, expected, rtol=1e-3, atol=1e-6)
    assert part.first_word == 2


@pytest.mark.parametrize("value", [np.nan, np.inf, 70_000])
def test_a_number_beyond_float16_is_refused(value: float) -> None:
    layers = np.zeros((LAYERS, 2, WIDTH), np.float32)
    layers[1, 1, 3] = value

    with pytest.raises(IndexFolderError, match="do not fit into float16"):
        PartWriter([["a", "b"]], np.zeros((LAYERS, WIDTH), np.float32), {}).write(0, layers)
