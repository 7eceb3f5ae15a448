"""The files of a part: what is written is read."""

from pathlib import Path

import numpy as np
import pytest

from elmo_model.neighbours import store
from elmo_model.neighbours.text import IndexFolderError
from elmo_model.neighbours.writer import PartWriter
from tests.support.neighbours import LAYERS, centre_of, made_up

SENTENCES = [["a", "b"], [], ["\ud800", "a"]]
VECTORS = made_up(SENTENCES)


@pytest.mark.parametrize("known", [{}, {"a": 0, "b": 1, "\ud800": 2}], ids=["new", "known"])
def test_a_part_is_read_as_it_was_written(tmp_path: Path, known: dict[str, int]) -> None:
    writer = PartWriter(SENTENCES, centre_of(VECTORS), known, tmp_path)
    for number, layers in enumerate(VECTORS):
        writer.write(number, layers)
    part = writer.finish()
    store.save_part(part, tmp_path)

    read = store.open_part(tmp_path, store.sizes(tmp_path), len(known), LAYERS)

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
        store.open_part(tmp_path, {}, 0, LAYERS)
