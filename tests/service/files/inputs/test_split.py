"""Lines that a tokenizer has split come back as sentences with their text."""

import pytest

from elmo_model.tokenizers import tokenizer
from elmo_serve.files.inputs.split import read, split_lines
from elmo_serve.files.sentence import FileError, Sentence


def test_text_and_tokens_come_back() -> None:
    lines = ["It can't.\n", "  \n", " Zürich\u2028東京"]
    kept = [line.decode() for line in split_lines(lines, tokenizer("ptb"))]

    assert len(kept) == 3
    assert list(read(kept)) == [
        Sentence("It can't.", ["It", "ca", "n't", "."]),
        Sentence("", []),
        Sentence("Zürich\u2028東京", ["Zürich", "東京"]),
    ]


def test_a_line_that_cannot_be_split_is_named() -> None:
    with pytest.raises(FileError, match="line 2: at character 0 the tokenizer changed 'DOTMULTI'"):
        list(split_lines(["a", "DOTMULTI"], tokenizer("moses")))
