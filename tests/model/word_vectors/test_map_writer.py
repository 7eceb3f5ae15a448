"""The writer of maps."""

from pathlib import Path

import numpy as np
import pytest

from elmo_model.word_vectors.map_writer import MapWriter, hash_of
from elmo_model.word_vectors.source import WordVectorsError
from elmo_model.word_vectors.word_vectors import WordVectors


def test_the_rows_keep_their_order_and_the_hashes_are_sorted(tmp_path: Path) -> None:
    words = [f"w{number}".encode() for number in range(50)]
    vectors = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    with MapWriter(tmp_path) as writer:
        for word, vector in zip(words, vectors, strict=True):
            writer.add(word, vector)
        writer.finish("name", "glove")

    found = WordVectors.open(tmp_path)

    np.testing.assert_array_equal(found.vectors, vectors)
    assert [found.word(row) for row in range(50)] == words
    hashes = np.load(tmp_path / "hashes.npy")
    assert hashes.tolist() == sorted(map(hash_of, words))
    assert not (tmp_path / "vectors.f32").exists()


def test_a_map_without_words_is_refused(tmp_path: Path) -> None:
    with MapWriter(tmp_path) as writer, pytest.raises(WordVectorsError, match="holds no word"):
        writer.finish("name", "glove")


def test_a_room_is_reserved_on_the_disk(tmp_path: Path) -> None:
    with MapWriter(tmp_path) as writer:
        writer.room("matrix.npy", (1_000, 300))

    found = (tmp_path / "matrix.npy").stat()
    assert found.st_blocks * 512 >= found.st_size
