"""Formats of input files: which lines are sentences, and what their tokens are."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import h5py
import pyarrow.parquet
import pytest

from elmo_model.network.elmo import ElmoNetwork
from elmo_serve.files.inputs import INPUTS, Sentence, input_format
from tests.support.embedding_runs import done, refused
from tests.support.vectors import close, layers_of


def read(form: str, lines: Iterable[str]) -> list[Sentence]:
    return list(INPUTS[form].read(lines))


def test_a_line_of_plain_text_is_a_sentence_and_white_space_separates() -> None:
    assert read("plain", [" a\u00a0b\t c \n", "\n", " \t\n", "d"]) == [
        Sentence("a\u00a0b\t c", ["a", "b", "c"]),
        Sentence("", []),
        Sentence("", []),
        Sentence("d", ["d"]),
    ]


def test_tokens_between_tabs_may_hold_spaces() -> None:
    assert read("tab", ["New York\tis\t\tbig \n", "\n", "a b"]) == [
        Sentence("New York\tis\t\tbig", ["New York", "is", "", "big"]),
        Sentence("", []),
        Sentence("a b", ["a b"]),
    ]


def test_the_words_of_conllu_are_the_tokens(tmp_path: Path, elmo: ElmoNetwork) -> None:
    """The ending of the file is enough to know the format."""
    source = tmp_path / "in.conllu"
    source.write_text(
        "# sent_id = 1\n1-2\tdon't\t_\n1\tdo\tdo\n2\tn't\tnot\n2.1\tghost\t_\n\n\n"
        "# newpar\n1\tTokyo Tower\t_\n2\t#\t_\n",
        encoding="utf-8",
    )

    done(source, tmp_path / "out.h5", "--all")

    expected = layers_of(elmo, [["do", "n't"], ["Tokyo Tower", "#"]])
    with h5py.File(tmp_path / "out.h5") as file:
        assert json.loads(file["sentence_to_index"][0]) == {"do n't": "0", "Tokyo Tower #": "1"}
        for number, layers in enumerate(expected):
            close(file[str(number)][()], layers)
    other = tmp_path / "in.txt"
    other.write_text("1 no tab\n")
    line = refused(other, tmp_path / "b.h5", "--all", "--input-format", "conllu")
    assert "line 1 is '1 no tab'" in line


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (">sp|P12|X a name", "P12"),
        (">P1 kinase|two", "P1"),
        (">a|b", "b"),
        (">", ""),
    ],
)
def test_a_record_of_fasta_is_a_sentence_of_letters_under_its_id(header: str, text: str) -> None:
    assert read("fasta", [f"{header}\n", "Ac*-\n", " b\n"]) == [Sentence(text, list("AC*-B"))]


def test_two_columns_of_conllu_are_enough() -> None:
    assert read("conllu", ["1\ta b\n", "2\tc\n", "\n"]) == [Sentence("a b c", ["a b", "c"])]


CONLL = """\
-DOCSTART- -X- -X- O

Angela NNP I-NP B-PER
sleeps VBZ I-VP O

-DOCSTART- -X- -X- O

Peter NNP I-NP B-PER
"""


def test_a_column_of_a_file_for_taggers_is_the_tokens(tmp_path: Path) -> None:
    """As `elmo fit` reads it: by its ending, or under any name by the option."""
    for name, flags in (("train.conll", ()), ("train.txt", ("--input-format", "conll"))):
        source, output = tmp_path / name, tmp_path / f"{name}.parquet"
        source.write_text(CONLL)
        done(source, output, "--top", *flags)
        rows = pyarrow.parquet.read_table(output)["tokens"].to_pylist()
        assert rows == [["Angela", "sleeps"], ["Peter"]]
    done(source, output, "--top", *flags, "--column", 1, "--force")
    assert pyarrow.parquet.read_table(output)["tokens"].to_pylist() == [["NNP", "VBZ"], ["NNP"]]


def test_columns_are_not_read_as_plain_text_or_as_numbers_of_words(tmp_path: Path) -> None:
    source = tmp_path / "train.txt"
    source.write_text(CONLL)
    line = refused(source, tmp_path / "v.npz", "--top")
    assert "no tokens in line 2 and 2 more of 8;" in line and "`--input-format conll`" in line
    source.write_text("1 Angela\n2 sleeps\n")
    flags = ("--top", "--input-format", "conll")
    assert "--column" in refused(source, tmp_path / "v.npz", *flags)
    assert "line 1 is '1 Angela'" in refused(source, tmp_path / "v.npz", *flags, "--column", 2)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.conllu", "conllu"),
        ("b/a.dev.conllu.gz", "conllu"),
        ("a.conllu.txt", "plain"),
        ("b/a.fa.gz", "fasta"),
        ("a.txt.xz", "plain"),
        ("a", "plain"),
        ("-", "plain"),
    ],
)
def test_the_ending_of_a_file_tells_its_format(name: str, form: str) -> None:
    assert input_format(name) == form
