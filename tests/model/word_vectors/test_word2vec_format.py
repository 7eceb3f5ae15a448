"""word2vec's binary format: a file that does not fit is refused with the number of the word."""

import struct
from pathlib import Path

import numpy as np
import pytest

from elmo_model.word_vectors.formats import WordVectorsError
from elmo_model.word_vectors.store import store_folder

WHOLE = b"5 3\n" + b"".join(b"w%d " % n + struct.pack("<3f", n, -n, 0.1) for n in range(5))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (WHOLE[:-4], "ends after 8 of 12 bytes of the vector of word 5 of 5"),
        (WHOLE + b"x", "holds b'x' behind its 5 words of width 3"),
        (WHOLE.replace(b"5 3", b"5 4", 1), "word 4 of 5|ends after|has no end"),
        (b"1 1\nx " + struct.pack("<f", np.nan), "word 1 of 1: a number is not finite"),
        (b"2 0\na \x01 b ", "vectors:1: the width is 0, expected from 1 to 1,048,576"),
        (b"1 9999999999999999999999\na \x01", "vectors:1: the width is 9999999999999999999999, "),
    ],
)
def test_a_file_that_does_not_fit_is_refused_with_its_word(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(content)

    with pytest.raises(WordVectorsError, match=message):
        store_folder(path, tmp_path / "cache")
