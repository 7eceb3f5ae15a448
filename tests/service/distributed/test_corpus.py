"""A corpus cut into parts: no sentence is lost, none is in two parts."""

from pathlib import Path

import pytest

from elmo_model.tokenizers import tokenizer
from elmo_serve.distributed.corpus import Corpus
from elmo_serve.files.inputs import INPUTS
from elmo_serve.files.sentence import FileError

LINES = ["a b", "Zürich 東京", "c", "d e f", "g"]
CONLLU = "# text\n1\tOne\n2\ttwo\n\n\n1\tThree\n\n# more\n1-2\tx\n1\tFour\n\n1\tFive\n"


def corpus(folder: Path, form: str = "plain", *, keep_blank: bool = False) -> Corpus:
    return Corpus(folder, INPUTS[form], keep_blank)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.txt").write_text("\n".join(LINES[:3]), encoding="utf-8")
    (tmp_path / "a.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    (tmp_path / ".hidden").write_text("h\n")
    (tmp_path / "empty.txt").touch()
    return tmp_path


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_the_parts_together_are_the_files(folder: Path, most: int) -> None:
    found = corpus(folder)
    parts = list(found.parts(most))

    for file, lines in (("a.txt", LINES), ("b/two.txt", LINES[:3])):
        own = [part for part in parts if part.file == file]
        assert [part.number for part in own] == list(range(len(own)))
        texts = [[sentence.text for sentence in found.sentences(part)] for part in own]
        assert [text for own_texts in texts for text in own_texts] == lines
        assert [part.sentences for part in own] == [len(each) for each in texts]
        assert [part.first for part in own] == [most * number for number in range(len(own))]
        assert sum(part.tokens for part in own) == sum(len(line.split()) for line in lines)
    assert {part.file for part in parts} == {"a.txt", "b/two.txt"}


@pytest.mark.parametrize("most", [1, 2, 3])
def test_sentences_of_several_lines_stay_whole(tmp_path: Path, most: int) -> None:
    (tmp_path / "x.conllu").write_text(CONLLU)
    found = corpus(tmp_path, "conllu")

    texts = [s.text for part in found.parts(most) for s in found.sentences(part)]

    assert texts == ["One two", "Three", "Four", "Five"]


def test_a_corpus_may_be_one_file(folder: Path) -> None:
    (part,) = corpus(folder / "a.txt").parts(100)

    assert part.name(".parquet") == "a.txt/000000.parquet"
    assert len(list(corpus(folder / "a.txt").sentences(part))) == 5


def test_a_tokenizer_splits_the_text_of_each_line(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("Don't stop.\n")
    found = corpus(tmp_path)
    (part,) = found.parts(10)

    (sentence,) = found.sentences(part, tokenizer("ptb"))

    assert sentence.tokens == ["Do", "n't", "stop", "."]


def test_blank_lines_are_named_unless_they_are_kept(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("a\n\nb\n")

    with pytest.raises(FileError, match=r"x\.txt: no tokens in line 2"):
        list(corpus(tmp_path).parts(10))
    (part,) = corpus(tmp_path, keep_blank=True).parts(10)
    assert part.sentences == 3


def test_a_file_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"\xff\n")

    with pytest.raises(FileError, match=r"x\.txt"):
        list(corpus(tmp_path).parts(10))


def test_the_digest_knows_names_and_bytes(folder: Path) -> None:
    before = corpus(folder).digest()
    assert corpus(folder).digest() == before

    (folder / "empty.txt").rename(folder / "other.txt")
    renamed = corpus(folder).digest()
    (folder / "other.txt").write_text("x")

    assert len({before, renamed, corpus(folder).digest()}) == 3
