"""The formats of word vectors: what they hold, and one line for a file that does not fit."""

import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save as torch_save

from elmo_model.text.files import MAX_LINE
from elmo_model.word_vectors.formats import WordVectorsError, tensors_of
from elmo_model.word_vectors.look_up import WordVectors
from elmo_model.word_vectors.store import store_folder

WORD2VEC = b"5 3\n" + b"".join(b"w%d " % n + struct.pack("<3f", n, -n, 0.1) for n in range(5))
VECTORS = np.random.default_rng(0).normal(size=(2, 3))
TENSORS = tensors_of([b"the", b"cat"], VECTORS.astype(np.float32))
BFLOAT16 = torch_save(
    {"vectors": torch.zeros(2, 3, dtype=torch.bfloat16), "words": torch.zeros(7, dtype=torch.uint8)}
)


def test_words_of_a_text_may_hold_spaces_and_other_white_space(tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    path.write_bytes("the 1 2\n. . . 3 4\n\u00a0 5 6\n 7 8\n".encode())

    rows, unknown = WordVectors.open(store_folder(path, tmp_path)).look_up(
        ["the", ". . .", "\u00a0", ""]
    )

    assert rows.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]] and not unknown.any()


def test_a_text_without_a_line_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(b"the 1 2\n" + bytes(MAX_LINE + 1).replace(b"\0", b"a"))

    with pytest.raises(WordVectorsError, match="line of more than"):
        store_folder(path, tmp_path)


def test_vectors_of_another_type_become_float32(tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(tensors_of([b"the", b"cat"], VECTORS.astype(np.float16)))

    rows, _ = WordVectors.open(store_folder(path, tmp_path)).look_up(["the", "cat"])

    np.testing.assert_array_equal(rows, VECTORS.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        # text: the line is named
        (b"the 1 2\ncat 1\n", r":2: has 1 number behind 'cat', expected 2"),
        (b"the 1 2\ncat 1 2 3\n", r":2: has 3 numbers behind 'cat', expected 2"),
        (b"the 1 2\ncat 1 x\n", r":2: found 'x', expected 2 numbers behind 'cat'"),
        (b"the 1 2\ncat 1 nan\n", r":2: a number behind 'cat' is not finite"),
        (b"the 1 2\n\n", r":2: has 0 numbers behind '', expected 2"),
        (b"the\n", r":1: has 0 numbers behind 'the', expected 1 or more"),
        (b"2 2\nthe 1 2\n", ":2: the file ends after 1 words, and line 1 says 2"),
        (b"1 2\nthe 1 2\ncat 1 2\n", ":3: is word 2, and line 1 says 1"),
        (b"1 0\nthe\n", ":1: the width is 0"),
        # word2vec: the number of the word
        (WORD2VEC[:-4], "ends after 8 of 12 bytes of the vector of word 5 of 5"),
        (WORD2VEC + b"x", "holds b'x' behind its 5 words of width 3"),
        (WORD2VEC.replace(b"5 3", b"5 4", 1), "word 4 of 5|ends after|has no end"),
        (b"1 1\nx " + struct.pack("<f", np.nan), "word 1 of 1: a number is not finite"),
        (b"2 0\na \x01 b ", "vectors:1: the width is 0, expected from 1 to 1,048,576"),
        (b"1 9999999999999999999999\na \x01", "vectors:1: the width is 9999999999999999999999, "),
        # safetensors: the reason
        (TENSORS[:-3], "is not whole safetensors"),
        (TENSORS.replace(b"words", b"texts"), "has the tensors texts, vectors; expected"),
        (BFLOAT16, "holds numbers of the type BF16, expected the tensors vectors, of float16"),
        (tensors_of([b"a", b"b"], VECTORS[:1].astype(np.float32)), "has 2 words and 1 vectors"),
        (tensors_of([b"a", b"b"], VECTORS.astype(np.float32) * np.inf), "is not finite"),
        (tensors_of([b"a"], VECTORS[:1, :0].astype(np.float32)), "the width is 0, expected from"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(content)

    with pytest.raises(WordVectorsError, match=message):
        store_folder(path, tmp_path / "cache")
