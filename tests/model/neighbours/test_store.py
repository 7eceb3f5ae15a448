"""A damaged index is refused with the name of the file."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest

from elmo_model.neighbours.store import index_of_part, open_index
from elmo_model.neighbours.text import IndexFolderError
from elmo_model.neighbours.writer import PartWriter
from tests.support.neighbours import centre_of, made_up, manifest_of, write_index

SENTENCES = [["a", "b"], ["c", "a"]]
VECTORS = made_up(SENTENCES)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_index(tmp_path / "index", [SENTENCES[:1], SENTENCES[1:]], VECTORS)
    return tmp_path / "index"


FILES = [
    "part-00000/1.npy",
    "part-00001/average.npy",
    "part-00001/token_words.npy",
    "part-00000/words.bin",
    "words/vectors.npy",
]


@pytest.mark.parametrize("name", FILES)
def test_a_torn_file_is_named(folder: Path, name: str) -> None:
    path = folder / name
    path.write_bytes(path.read_bytes()[:-1])

    with pytest.raises(IndexFolderError, match=r"has [0-9,]+ bytes, expected [0-9,]+") as error:
        open_index(folder)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()

    with pytest.raises(IndexFolderError, match="cannot be read: No such file") as error:
        open_index(folder)
    assert str(folder / name) in str(error.value)


def test_other_bytes_of_the_same_size_are_no_array(folder: Path) -> None:
    path = folder / "part-00000" / "1.npy"
    path.write_bytes(b"x" * path.stat().st_size)

    with pytest.raises(IndexFolderError, match="is no array"):
        open_index(folder)


@pytest.mark.parametrize("name", ["token_words.npy", "1.npy", "word_vectors.npy", "word_ends.npy"])
def test_any_byte_of_a_header_may_be_another_one(folder: Path, name: str) -> None:
    """numpy evaluates a header as Python: its errors are of many kinds."""
    path = folder / "part-00000" / name
    data = path.read_bytes()
    for place in range(128):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with contextlib.suppress(IndexFolderError):
            open_index(folder)


def test_an_array_of_another_type_or_shape_is_named(folder: Path) -> None:
    for name, dtype in (("1.npy", "<i2"), ("token_words.npy", "<f4"), ("word_ends.npy", "<i8")):
        path = folder / "part-00000" / name
        data = path.read_bytes()
        np.save(path, np.load(path).view(dtype))
        with pytest.raises(IndexFolderError, match=r"word_ends|damaged"):
            open_index(folder)
        path.write_bytes(data)


def test_words_that_are_no_utf8_are_found_when_the_index_is_opened(folder: Path) -> None:
    path = folder / "part-00000" / "words.bin"
    path.write_bytes(b"\xff" * path.stat().st_size)

    with pytest.raises(IndexFolderError, match=r"words\.bin"):
        open_index(folder)


@pytest.mark.parametrize("data", [b"", b"x" * 300])
def test_a_damaged_centre_is_named(folder: Path, data: bytes) -> None:
    (folder / "centre.npy").write_bytes(data)

    with pytest.raises(IndexFolderError, match=r"centre\.npy"):
        open_index(folder)


def test_a_centre_of_another_shape_is_refused(folder: Path) -> None:
    np.save(folder / "centre.npy", np.zeros((2, 8), np.float32))

    with pytest.raises(IndexFolderError, match="has the shape"):
        open_index(folder)


def test_an_index_in_memory_is_as_one_in_files(tmp_path: Path) -> None:
    stored = write_index(tmp_path / "index", [SENTENCES], VECTORS)
    writer = PartWriter(SENTENCES, centre_of(VECTORS), {})
    for number, layers in enumerate(VECTORS):
        writer.write(number, layers)

    index = index_of_part(manifest_of(), centre_of(VECTORS), writer.finish())

    layers = VECTORS[0][:, 1]
    for name in ("text", "model", "revision", "tokens", "sentences", "known_words"):
        assert getattr(index.info, name) == getattr(stored.info, name)
    for shares in [(1, 0, 0), (0, 1, 0), (0.2, 0.3, 0.5)]:
        assert index.uses(layers, shares, 9) == stored.uses(layers, shares, 9)
    assert index.nearest_words(layers[0], 9) == stored.nearest_words(layers[0], 9)
