"""The parts of a text: runs of lines, which are checked when they are skipped."""

from pathlib import Path

import pytest

from elmo_model.neighbours.text import IndexFolderError, PartFacts, TextPart, TextParts
from elmo_model.text.files import TextError
from elmo_model.text.tokenizers import tokenizer


def parts_of(path: Path, tokens: int) -> TextParts:
    return TextParts(path, tokenizer("whitespace"), tokens)


def facts(part: TextPart) -> PartFacts:
    return PartFacts(part.tokens, len(part.sentences), 0, part.lines, part.digest, {})


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text"
    path.write_text("a b\n\nc d e\nf\r\n\ng h\n\n")
    return path


def test_a_part_ends_with_the_line_that_fills_it(text: Path) -> None:
    found = list(parts_of(text, 3).after([]))

    assert [part.sentences for part in found] == [
        [["a", "b"], ["c", "d", "e"]],
        [["f"], ["g", "h"]],
    ]
    assert [part.lines for part in found] == [3, 3]
    assert [part.start for part in found] == [0, found[0].size]
    assert parts_of(text, 3).size() == text.stat().st_size == found[1].start + found[1].size + 1


def test_parts_that_are_done_are_skipped(text: Path) -> None:
    first, second = parts_of(text, 3).after([])

    assert list(parts_of(text, 3).after([facts(first)])) == [second]
    assert list(parts_of(text, 3).after([facts(first), facts(second)])) == []


def test_of_equal_lines_the_first_is_a_sentence(tmp_path: Path) -> None:
    """Also where it lies in a part that an earlier run has written."""
    path = tmp_path / "text"
    path.write_text("a b\nc\na b\r\na b\nd e f\nc\n g\nd e f\ng\na b\n")

    found = list(parts_of(path, 5).after([]))

    assert [part.sentences for part in found] == [[["a", "b"], ["c"], ["d", "e", "f"]], [["g"]]]
    assert [part.lines for part in found] == [5, 5]
    assert list(parts_of(path, 5).after([facts(found[0])])) == [found[1]]
    path.write_bytes(path.read_bytes() + b"c\nd e f\n" * 5)
    assert list(parts_of(path, 5).after(list(map(facts, found)))) == []


def test_changed_lines_are_named(text: Path) -> None:
    first, second = parts_of(text, 3).after([])
    text.write_text(text.read_text().replace("g", "G"))

    with pytest.raises(IndexFolderError, match="lines 4 to 6 have changed"):
        list(parts_of(text, 3).after([facts(first), facts(second)]))
    text.write_text("")
    with pytest.raises(IndexFolderError, match="its lines have changed"):
        list(parts_of(text, 3).after([facts(first)]))


def test_a_long_sentence_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("a\n" + "b " * 1_001)

    with pytest.raises(TextError, match=":2: has 1,001 tokens and at most 1,000"):
        list(parts_of(path, 5_000).after([]))
