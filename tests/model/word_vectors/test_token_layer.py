"""The token layer as word vectors."""

from pathlib import Path

import numpy as np
import pytest

from elmo_model.models.opening import open_model
from elmo_model.word_vectors.formats import WordVectorsError
from elmo_model.word_vectors.look_up import WordVectors
from elmo_model.word_vectors.store import store_folder
from elmo_model.word_vectors.token_layer import most_frequent, token_vectors, write_token_layer
from tests.support.servers import SMALL

WORDS = ["the", "naïve", "cat"]


def test_a_vector_is_either_half_of_layer_0() -> None:
    elmo = open_model(SMALL)

    found = token_vectors(elmo, WORDS)

    (layers,) = elmo.embed([WORDS])
    for half in np.split(layers[0].numpy(), 2, axis=1):
        np.testing.assert_allclose(found, half, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["out.safetensors", "out.txt", "out.txt.gz"])
def test_every_format_is_read_back_to_the_bit(tmp_path: Path, name: str) -> None:
    (tmp_path / "text.txt").write_text("cat the naïve the cat the <UNK>\n", encoding="utf-8")
    out = tmp_path / name

    line = write_token_layer(str(SMALL), out, 3, [tmp_path / "text.txt"])

    found = WordVectors.open(store_folder(out, tmp_path / "cache"))
    assert [found.words[row] for row in range(3)] == ["the", "cat", "naïve"]
    expected = token_vectors(open_model(SMALL), ["the", "cat", "naïve"])
    np.testing.assert_array_equal(found.vectors, expected)
    assert line == f"Wrote {out}: 3 words of width {expected.shape[1]}"


def test_a_vocabulary_gives_the_words_in_its_order(tmp_path: Path) -> None:
    (tmp_path / "vocabulary.txt").write_text("<S>\n</S>\n<UNK>\ndog\ncat\nthe\n")

    write_token_layer(str(SMALL), tmp_path / "out.txt", 2, vocabulary=tmp_path / "vocabulary.txt")

    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert [line.split(" ")[0] for line in lines] == ["2", "dog", "cat"]


def test_a_model_without_a_vocabulary_needs_words(tmp_path: Path) -> None:
    with pytest.raises(WordVectorsError, match="--text or --vocabulary names files"):
        write_token_layer(str(SMALL), tmp_path / "out.txt", 2)


def test_words_that_no_line_can_hold_are_left_out() -> None:
    assert most_frequent(["a b", "", "a", "<S>", "a", "b", "c"], 2) == ["a", "b"]
