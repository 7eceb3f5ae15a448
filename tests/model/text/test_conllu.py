"""CoNLL-U: words and their columns; comments, ranges and empty nodes are left out."""

import pytest

from elmo_model.text.conll import FORM, ConllError, read_conllu

TEXT = """\
# text = Vámonos al mar
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\t_\t_\t_\t_\t_\t_
2\tnos\tnosotros\tPRON\t_\t_\t_\t_\t_\t_
2.1\tsilent\t_\t_\t_\t_\t_\t_\t_\t_

# only a range
1-2\tal\t_\t_\t_\t_\t_\t_\t_\t_


1\ttwo words\t_\tNOUN\t_\t_\t_\t_\t_\t_
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("tail", ["", "\n", "\n\n \n"])
def test_sentences_are_lists_of_words(end: str, tail: str) -> None:
    lines = (TEXT + tail).replace("\n", end).splitlines(keepends=True)

    sentences = list(read_conllu(lines))

    assert [[word[FORM] for word in words] for words in sentences] == [
        ["Vamos", "nos"],
        [],
        ["two words"],
    ]
    assert [word[3] for word in sentences[0]] == ["VERB", "PRON"]


def test_two_columns_are_enough_if_asked_for() -> None:
    assert list(read_conllu(["1\ta\n", "2\tb\n"], columns=2)) == [[["1", "a"], ["2", "b"]]]


@pytest.mark.parametrize(
    ("line", "columns"), [("1 a", 2), ("1\t", 2), ("1\ta", 10), ("1" + "\t" * 9, 10)]
)
def test_a_line_that_is_no_word_is_named(line: str, columns: int) -> None:
    expected = "an id, a TAB and a form" if columns == 2 else "10 columns with TABs between"
    with pytest.raises(ConllError, match=rf"^line 2 is .*, expected {expected}"):
        list(read_conllu(["# comment\n", line + "\n"], columns))


@pytest.mark.parametrize("line", ["1\tb", "3\tb", "x\tb", "\tb"])
def test_a_missing_blank_line_is_named(line: str) -> None:
    with pytest.raises(ConllError, match="line 2"):
        list(read_conllu(["1\ta\n", line], columns=2))


def test_nothing_holds_no_sentence() -> None:
    assert list(read_conllu([])) == []
    assert list(read_conllu(["\n", "# comment\n", "\n"])) == []
