"""The text of elmo embed: counted, checked and read again."""

from __future__ import annotations

import gzip
import hashlib
import os
import threading
from pathlib import Path

import pytest

from elmo_model.text.tokenizers import tokenizer
from elmo_serve.files.inputs import INPUTS, FileError
from elmo_serve.files.outputs import OUTPUTS
from elmo_serve.files.text import Corpus, Text
from elmo_serve.output import Output

LINES = ["a b", "Zürich 東京", "c", "d e f", "g"]
CONLLU = "# text\n1\tOne\n2\ttwo\n\n\n1\tThree\n\n# more\n1-2\tx\n1\tFour\n\n1\tFive\n"


def test_a_survey_counts_and_hashes(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("a b\n\nc\n")

    found = Text(path, "in", keep_blank=True).survey(OUTPUTS["npz"].check(Output(layers=(0,))))

    assert (found.sentences, found.tokens) == (3, 3)
    assert Text(path, "in").digest() == hashlib.sha256(b"a b\n\nc\n").hexdigest()


@pytest.mark.parametrize(
    ("content", "form", "message"),
    [
        ("a\n\nb\n", "plain", "in: no tokens in line 2 of 3;"),
        ("\n\n", "tab", "in: no tokens in line 1 and 1 more of 2;"),
        ("\n" * 12, "plain", "line 1 and 11 more of 12;"),
        ("1-2\ta\t_\n\n", "conllu", "in: no tokens in sentence 1 of 1;"),
    ],
)
def test_blank_lines_are_named_from_1(
    tmp_path: Path, content: str, form: str, message: str
) -> None:
    path = tmp_path / "in.txt"
    path.write_text(content)

    with pytest.raises(FileError, match=message):
        Text(path, "in", INPUTS[form]).survey(OUTPUTS["npz"].check(Output(layers=(0,))))


def test_a_pipe_is_copied_and_can_be_read_again(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("a b\nc\n",))
    writer.start()

    with Text.open(str(pipe), INPUTS["plain"], keep_blank=False) as text:
        writer.join()
        first, second = list(text.sentences()), list(text.sentences())

    assert [sentence.tokens for sentence in first] == [["a", "b"], ["c"]]
    assert first == second
    assert not text.path.exists()


@pytest.mark.parametrize("name", ["in.txt", "in.txt.gz"])
def test_a_file_has_the_same_sentences_whoever_reads_it(tmp_path: Path, name: str) -> None:
    """A byte order mark is no part of a word, and a line ends at a newline alone."""
    path = tmp_path / name
    data = "\ufeffHello world\r\none two\rthree four\n\ufeffx\n".encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    expected = [["Hello", "world"], ["one", "two", "three", "four"], ["\ufeffx"]]

    text, corpus = Text(path, "in"), Corpus(path)

    assert [sentence.tokens for sentence in text.sentences()] == expected
    with text.split(tokenizer("whitespace")) as split:
        assert [sentence.tokens for sentence in split.sentences()] == expected
    for most in (1, 2, 3):
        parts = [list(corpus.part(part).sentences()) for part in corpus.parts(most)]
        assert [sentence.tokens for part in parts for sentence in part] == expected


def test_a_file_that_is_not_there_any_more_is_the_one_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    text = Text(path, "in.txt")

    with pytest.raises(FileError, match=r"in\.txt: cannot be read: .*No such file"):
        list(text.sentences())
    with pytest.raises(FileError, match=r"in\.txt: cannot be read"), text.split(tokenizer("ptb")):
        pass


# The files of a folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.txt").write_text("\n".join(LINES[:3]), encoding="utf-8")
    (tmp_path / "a.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    (tmp_path / ".hidden").write_text("h\n")
    (tmp_path / "empty.txt").touch()
    return tmp_path


def test_a_name_that_is_not_utf8_is_refused_before_a_text_is_read(folder: Path) -> None:
    (Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt"))).write_text("x\n")

    with pytest.raises(FileError, match="is not UTF-8"):
        next(Corpus(folder).parts(1))


def test_a_folder_is_listed_once(folder: Path) -> None:
    corpus = Corpus(folder)
    files = list(corpus.files)
    (folder / "later.txt").write_text("later\n")

    assert list(corpus.files) == files == ["a.txt", "b/two.txt", "empty.txt"]


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_the_parts_together_are_the_files(folder: Path, most: int) -> None:
    found = Corpus(folder)
    parts = list(found.parts(most))

    for file, lines in (("a.txt", LINES), ("b/two.txt", LINES[:3])):
        own = [part for part in parts if part.file == file]
        assert [part.number for part in own] == list(range(len(own)))
        texts = [[sentence.text for sentence in found.part(part).sentences()] for part in own]
        assert [text for own_texts in texts for text in own_texts] == lines
        assert [part.sentences for part in own] == [len(each) for each in texts]
        assert [part.first for part in own] == [most * number for number in range(len(own))]
        assert sum(part.tokens for part in own) == sum(len(line.split()) for line in lines)
    assert {part.file for part in parts} == {"a.txt", "b/two.txt"}


@pytest.mark.parametrize("most", [1, 2, 3])
def test_sentences_of_several_lines_stay_whole(tmp_path: Path, most: int) -> None:
    (tmp_path / "x.conllu").write_text(CONLLU)
    found = Corpus(tmp_path, lambda _: INPUTS["conllu"])

    texts = [s.text for part in found.parts(most) for s in found.part(part).sentences()]

    assert texts == ["One two", "Three", "Four", "Five"]


@pytest.mark.parametrize("most", [1, 2, 3, 100])
@pytest.mark.parametrize("name", ["in.fasta", "in.fasta.gz"])
def test_parts_of_fasta_begin_at_their_headers(tmp_path: Path, name: str, most: int) -> None:
    """The reader sees the header of the next record before it yields one."""
    data = b"\n>a b\nAC\nD\n\n>b\n>c\r\nEF\n>d\nG\nH"
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    corpus = Corpus(tmp_path / name)

    found = [list(corpus.part(part).sentences()) for part in corpus.parts(most)]

    whole = list(corpus.text(name).sentences())
    assert [each.tokens for each in whole] == [list("ACD"), [], list("EF"), list("GH")]
    assert found == [whole[at : at + most] for at in range(0, len(whole), most)]


def test_a_corpus_may_be_one_file(folder: Path) -> None:
    (part,) = Corpus(folder / "a.txt").parts(100)

    assert part.name(".parquet") == "a.txt/000000.parquet"
    assert len(list(Corpus(folder / "a.txt").part(part).sentences())) == 5


def test_blank_lines_are_named_unless_they_are_kept(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("a\n\nb\n")

    with pytest.raises(FileError, match=rf"^{tmp_path / 'x.txt'}: no tokens in line 2"):
        list(Corpus(tmp_path).parts(10))
    (part,) = Corpus(tmp_path, keep_blank=True).parts(10)
    assert part.sentences == 3


def test_a_file_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"\xff\n")

    with pytest.raises(FileError, match=rf"^{tmp_path / 'x.txt'}:1: is not UTF-8"):
        list(Corpus(tmp_path).parts(10))
    for content in ("The bank\n".encode("utf-16-le"), b"The b\0nk\n"):
        (tmp_path / "x.txt").write_bytes(content)
        with pytest.raises(
            FileError, match=r"x\.txt:1: has NUL, as UTF-16 does; expected UTF-8, as"
        ):
            list(Corpus(tmp_path).parts(10))


def test_the_digest_knows_names_and_bytes(folder: Path) -> None:
    before = Corpus(folder).digest()
    assert Corpus(folder).digest() == before

    (folder / "empty.txt").rename(folder / "other.txt")
    renamed = Corpus(folder).digest()
    (folder / "other.txt").write_text("x")

    assert len({before, renamed, Corpus(folder).digest()}) == 3
