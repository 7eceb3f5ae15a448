"""Plain text: a sentence a line, tokens between white space."""

from elmo_serve.files.inputs.plain import read
from elmo_serve.files.sentence import Sentence


def test_a_line_is_a_sentence_and_white_space_separates() -> None:
    found = list(read([" a\u00a0b\t c \n", "\n", " \t\n", "d"]))

    assert found == [
        Sentence("a\u00a0b\t c", ["a", "b", "c"]),
        Sentence("", []),
        Sentence("", []),
        Sentence("d", ["d"]),
    ]
