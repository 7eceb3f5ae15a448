"""The text of elmo embed: counted, checked and read again."""

from __future__ import annotations

import gzip
import hashlib
import os
import threading
from pathlib import Path

import pytest

from elmo_model.tokenizers import tokenizer
from elmo_serve.distributed.corpus import Corpus
from elmo_serve.files.inputs import INPUTS
from elmo_serve.files.outputs import OUTPUTS
from elmo_serve.files.sentence import FileError
from elmo_serve.files.text import Text
from elmo_serve.output import Output


def test_a_survey_counts_and_hashes(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("a b\n\nc\n")

    found = Text(path, "in", keep_blank=True).survey(OUTPUTS["npz"], Output(layers=(0,)))

    assert (found.sentences, found.tokens) == (3, 3)
    assert found.digest == hashlib.sha256(b"a b\n\nc\n").hexdigest()


@pytest.mark.parametrize(
    ("content", "form", "message"),
    [
        ("a\n\nb\n", "plain", "in: no tokens in line 2 of 3;"),
        ("\n\n", "tab", "in: no tokens in lines 1, 2 of 2;"),
        ("\n" * 12, "plain", "lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more of 12;"),
        ("1-2\ta\t_\n\n", "conllu", "in: no tokens in sentence 1 of 1;"),
    ],
)
def test_blank_lines_are_named_from_1(
    tmp_path: Path, content: str, form: str, message: str
) -> None:
    path = tmp_path / "in.txt"
    path.write_text(content)

    with pytest.raises(FileError, match=message):
        Text(path, "in", INPUTS[form]).survey(OUTPUTS["npz"], Output(layers=(0,)))


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

    text, corpus = Text(path, "in"), Corpus(path, INPUTS["plain"])

    assert [sentence.tokens for sentence in text.sentences()] == expected
    with text.split(tokenizer("whitespace")) as split:
        assert [sentence.tokens for sentence in split.sentences()] == expected
    for most in (1, 2, 3):
        parts = [list(corpus.sentences(part)) for part in corpus.parts(most)]
        assert [sentence.tokens for part in parts for sentence in part] == expected


def test_a_file_that_is_not_there_any_more_is_the_one_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    text = Text(path, "in.txt")

    with pytest.raises(FileError, match=r"in\.txt: cannot be read: .*No such file"):
        list(text.sentences())
    with pytest.raises(FileError, match=r"in\.txt: cannot be read"), text.split(tokenizer("ptb")):
        pass
