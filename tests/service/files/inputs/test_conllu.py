"""CoNLL-U: words are tokens."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import pytest

from elmo_model.elmo import Elmo
from elmo_serve.files.inputs.conllu import read
from elmo_serve.files.sentence import FileError, Sentence
from tests.support.embedding_runs import close, done, layers_of, refused


def test_the_words_are_the_tokens(tmp_path: Path, elmo: Elmo) -> None:
    source = tmp_path / "in.conllu"
    source.write_text(
        "# sent_id = 1\n1-2\tdon't\t_\n1\tdo\tdo\n2\tn't\tnot\n2.1\tghost\t_\n\n\n"
        "# newpar\n1\tTokyo Tower\t_\n2\t#\t_\n",
        encoding="utf-8",
    )

    done(source, tmp_path / "out.h5", "--all", "--input-format", "conllu")

    expected = layers_of(elmo, [["do", "n't"], ["Tokyo Tower", "#"]])
    with h5py.File(tmp_path / "out.h5") as file:
        assert json.loads(file["sentence_to_index"][0]) == {"do n't": "0", "Tokyo Tower #": "1"}
        for number, layers in enumerate(expected):
            close(file[str(number)][()], layers)
    source.write_text("1 no tab\n")
    line = refused(source, tmp_path / "b.h5", "--all", "--input-format", "conllu")
    assert "line 1 is '1 no tab'" in line


def test_two_columns_are_enough() -> None:
    assert list(read(["1\ta b\n", "2\tc\n", "\n"])) == [Sentence("a b c", ["a b", "c"])]


def test_a_line_that_is_no_word_is_named() -> None:
    with pytest.raises(FileError, match="line 2"):
        list(read(["1\ta\n", "2 b\n"]))
