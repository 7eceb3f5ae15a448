"""The token layer as word vectors."""

from pathlib import Path

import numpy as np

from elmo_model.models.opening import open_model
from elmo_model.models.token_layer import read_token_layer
from tests.support.servers import SMALL


def test_the_most_frequent_words_of_a_text_come_first_without_marks(tmp_path: Path) -> None:
    """A vector is either half of layer 0."""
    (tmp_path / "text.txt").write_text("cat the naïve cat the cat the <UNK> dog\n", "utf-8")

    found = list(read_token_layer(str(SMALL), 4, [tmp_path / "text.txt"]))

    words = ["cat", "the", "dog", "naïve"]
    assert [word.decode() for word, _ in found] == words
    (layers,) = open_model(SMALL).embed([words])
    for half in np.split(layers[0].numpy(), 2, axis=1):
        np.testing.assert_allclose([vector for _, vector in found], half, rtol=0, atol=1e-6)


def test_a_vocabulary_gives_the_words_in_its_order(tmp_path: Path) -> None:
    (tmp_path / "vocabulary.txt").write_text("<S>\n</S>\n<UNK>\ndog\n\ncat\ndog\nthe\n")

    found = read_token_layer(str(SMALL), 3, vocabulary=tmp_path / "vocabulary.txt")

    assert [word for word, _ in found] == [b"dog", b"cat", b"the"]
