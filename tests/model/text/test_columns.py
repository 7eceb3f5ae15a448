"""Columns: which lines are words, comments or none, and columns that hold no words."""

import pytest

from elmo_model.text.conll import ConllError, read


def rows(text: str, *columns: int, is_checked: bool = True) -> list[list[list[str]]]:
    lines = text.splitlines(keepends=True) if "\r" not in text else text.split("\n")
    found = read(lines, columns or (0, -1), is_checked=is_checked)
    return [[list(word) for word in words] for words in found]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("# id 1\tdomain=en\nParis _ _ B-LOC\n", ["Paris"]),
        ("# id 5239d808-f300\tdomain=en\nParis\tB-LOC\n", ["Paris"]),
        ("#\thttp://x.org/y [2009-10-17]\nAnna\tB-PER\tO\nlebt\tO\tO\n", ["Anna", "lebt"]),
        ("# newdoc id = a-1\n# sent_id = 3\n# text = a = b\nAnna O\n", ["Anna"]),
        ("# text =\nAnna\tO\n", ["Anna"]),
        ("#\tid='1'\t..\nAnna\tO\n", ["Anna"]),
        ("# O\nAnna O\n", ["#", "Anna"]),
        ("# O\n", ["#"]),
        ("#\tO\nAnna\tO\n", ["#", "Anna"]),
        ("#\tSYM\t=\tO\nAnna\tNE\t_\tO\n", ["#", "Anna"]),
        ("#1 O\nAnna O\n", ["#1", "Anna"]),
        ("Anna O\n# id O\n", ["Anna", "#"]),
        ("-DOCSTART- -X- O\n\n#begin document (a)\nAnna O\n#end document\n", ["Anna"]),
    ],
)  # fmt: skip
def test_comments_before_the_first_word_are_left_out_and_words_are_not(
    text: str, tokens: list[str]
) -> None:
    assert [word[0] for words in rows(text, is_checked=False) for word in words] == tokens


def test_a_comment_between_sentences_of_known_columns_is_left_out() -> None:
    """A lone `#` of a later sentence is a word: it has the columns of the words before."""
    text = "Anna\tO\n\n#\ta\tb\n\n#\tO\n"

    assert rows(text) == [[["Anna", "O"]], [["#", "O"]]]


@pytest.mark.parametrize(
    ("line", "columns"),
    [
        ("Anna \t B-PER ", ["Anna", "B-PER"]),
        ("New York\tB-LOC", ["New York", "B-LOC"]),
        (" Anna  NNP  B-PER ", ["Anna", "B-PER"]),
        ("As\t data/x\t O\t", ["As", "O"]),
        ("\u3000\tO", ["\u3000", "O"]),
        ("Anna\tO\r", ["Anna", "O"]),
    ],
)
def test_spaces_around_fields_go(line: str, columns: list[str]) -> None:
    assert rows(line + "\n") == [[columns]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a O\rb O\rc B-X\r", "line 1 has .* inside"),
        ("a O\nb O\rc O\nd O\n", "line 2 has .* inside"),
        ("a\tO\n \tO\n", "line 2 is 'O', expected a token"),
        ("a\tNN\tO\nb\tNN\t\n", "line 2 is"),
        ("a\tNN\t\nb\tNN\tO\n", "line 2 is"),
    ],
)
def test_a_line_that_is_no_word_is_named(text: str, message: str) -> None:
    with pytest.raises(ConllError, match=message):
        rows(text)


def sentences(*tokens: str) -> str:
    return "\n\n".join("\n".join(f"{t} O" for t in each.split()) for each in tokens) + "\n"


@pytest.mark.parametrize(
    "text",
    [
        sentences("1 2 3"),
        sentences("1", "1 2", "1", "1 2 3", "1 2", "Anna"),
        sentences("0 1", "0 1 2", "0 1"),
        sentences("1 2-3 2 3", "1 1.1 2", "1 2"),
        sentences("0 1", "2 3 4", "5 6"),
        "# id 1\tx=y\n" + sentences("1 2", "1 2 3", "1 2"),
    ],
)
def test_a_column_of_numbers_is_refused(text: str) -> None:
    with pytest.raises(ConllError, match="--column"):
        rows(text)
    assert rows(text, is_checked=False)


@pytest.mark.parametrize("text", [sentences("bn/0009 bn/0009"), sentences("d1 d1", "d1", "d2 d2")])
def test_a_column_of_documents_is_refused(text: str) -> None:
    with pytest.raises(ConllError, match="--column"):
        rows(text)
    assert rows(text, is_checked=False)


@pytest.mark.parametrize(
    "text",
    [
        sentences("1 2 3", "Anna sat", "1 2"),
        sentences("1", "2", "3"),
        sentences("ja ja", "no way"),
        sentences("2 3", "4 7", "9 1"),
        "",
    ],
)
def test_words_that_are_numbers_are_read(text: str) -> None:
    assert len(rows(text)) == text.count("\n\n") + bool(text)
