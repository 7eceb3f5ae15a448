"""Text with TABs: a sentence a line, tokens may hold spaces."""

from elmo_serve.files.inputs.tab import read
from elmo_serve.files.sentence import Sentence


def test_a_line_is_a_sentence_and_only_tabs_separate() -> None:
    found = list(read(["New York\tis\t\tbig \n", "\n", "a b"]))

    assert found == [
        Sentence("New York\tis\t\tbig", ["New York", "is", "", "big"]),
        Sentence("", []),
        Sentence("a b", ["a b"]),
    ]
