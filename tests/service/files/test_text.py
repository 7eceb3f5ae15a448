"""The text of elmo embed: counted, checked and read again."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import threading
from pathlib import Path

import pytest

from elmo_model.text.tokenizers import tokenizer
from elmo_serve.files.inputs import INPUTS, FileError
from elmo_serve.files.text import Corpus, Text
from tests.support.files import full_disk

LINES = ["a b", "Zürich 東京", "c", "d e f", "g"]


def test_a_survey_counts_and_hashes(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("a b\n\nc\n")

    found = Text(path, "in", keep_blank=True).survey()

    assert (found.sentences, found.tokens) == (3, 3)
    assert Text(path, "in").digest() == hashlib.sha256(b"a b\n\nc\n").hexdigest()


@pytest.mark.parametrize(
    ("content", "form", "message"),
    [
        ("a\n\nb\n", "plain", "line 2 of 3"),
        ("\n\n", "tab", "line 1 and 1 more of 2"),
        ("\n" * 12, "plain", "line 1 and 11 more of 12;"),
        ("1-2\ta\t_\n\n", "conllu", "sentence 1 of 1"),
    ],
)
def test_blank_lines_are_named_from_1(
    tmp_path: Path, content: str, form: str, message: str
) -> None:
    path = tmp_path / "in.txt"
    path.write_text(content)

    with pytest.raises(FileError, match=message):
        Text(path, "in", INPUTS[form]).survey()


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

    text = Text(path, "in").split(tokenizer("whitespace"))

    found = list(text.sentences())
    assert [sentence.tokens for sentence in found] == expected
    assert [text.tokens(1, sentence).tokens for sentence in found] == expected


def test_a_file_that_is_not_there_any_more_is_the_one_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    text = Text(path, "in.txt")

    with pytest.raises(FileError, match=r"in\.txt: cannot be read: .*No such file"):
        list(text.sentences())


def test_the_tokens_of_a_tokenizer_are_estimated_by_the_first_thousand_sentences(
    tmp_path: Path,
) -> None:
    path = tmp_path / "in.txt"
    path.write_text("It can't.\n" * 1_000 + "a b c d\n" * 9_000)

    text = Text(path, "in").split(tokenizer("ptb"))

    assert (text.survey().tokens, text.ratio()) == (38_000, 2.0)


def test_a_full_temporary_folder_is_named_with_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "in.txt"
    path.write_text("a b c\n" * 1_000)
    with path.open() as stdin, full_disk(1_000):
        monkeypatch.setattr("sys.stdin", stdin)
        with pytest.raises(FileError, match="TMPDIR"), Text.open("-", INPUTS["plain"], False):
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
        Corpus(folder).files  # noqa: B018


def test_a_folder_is_listed_once(folder: Path) -> None:
    corpus = Corpus(folder)
    files = list(corpus.files)
    (folder / "later.txt").write_text("later\n")

    assert list(corpus.files) == files == ["a.txt", "b/two.txt", "empty.txt"]


def test_a_corpus_may_be_one_file(folder: Path) -> None:
    corpus = Corpus(folder / "a.txt")

    assert list(corpus.files) == ["a.txt"]
    assert [each.text for each in corpus.text("a.txt").sentences()] == LINES


def test_links_are_followed_and_each_folder_is_read_once(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / ".elsewhere"
    other.mkdir()
    (other / "linked.txt").write_text("x\n")
    (folder / "b" / "link").symlink_to(other)
    (folder / "c.txt").symlink_to(folder / "a.txt")
    (other / "back").symlink_to(folder)

    files = Corpus(folder).files

    assert list(files) == ["a.txt", "b/link/linked.txt", "b/two.txt", "c.txt", "empty.txt"]


def test_a_link_that_leads_nowhere_is_refused(folder: Path) -> None:
    (folder / "b" / "gone").symlink_to(folder / "nowhere")
    with pytest.raises(FileError, match="b/gone is a link to"):
        Corpus(folder).files  # noqa: B018


def test_a_folder_that_cannot_be_read_is_refused(folder: Path) -> None:
    (folder / "b").chmod(0)
    user = os.geteuid()
    with contextlib.chdir(folder):
        if not user:  # who may read every folder
            folder.chmod(0o755)
            os.seteuid(65534)
        try:
            with pytest.raises(PermissionError, match="b"):
                Corpus(Path()).files  # noqa: B018
        finally:
            os.seteuid(user)
            (folder / "b").chmod(0o700)


def test_a_file_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"\xff\n")

    with pytest.raises(FileError, match=rf"^{tmp_path / 'x.txt'}:1: is not UTF-8"):
        Corpus(tmp_path).text("x.txt").survey()
    for content in ("The bank\n".encode("utf-16-le"), b"The b\0nk\n"):
        (tmp_path / "x.txt").write_bytes(content)
        with pytest.raises(FileError, match=r"x\.txt:1: has NUL"):
            Corpus(tmp_path).text("x.txt").survey()


def test_the_digest_knows_names_and_bytes(folder: Path) -> None:
    before = Corpus(folder).digest()
    assert Corpus(folder).digest() == before

    (folder / "empty.txt").rename(folder / "other.txt")
    renamed = Corpus(folder).digest()
    (folder / "other.txt").write_text("x")

    assert len({before, renamed, Corpus(folder).digest()}) == 3
