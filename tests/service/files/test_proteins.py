"""Records of FASTA as the text of a run: ids, letters, repeats, files and folders."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest

from elmo_serve.files.inputs import INPUTS, FileError, Rules, Sentence, format_of
from elmo_serve.files.outputs.output_format import Repeats
from elmo_serve.files.outputs.proteins import LAYOUTS
from elmo_serve.files.proteins import Records
from elmo_serve.files.text import Corpus, Text
from elmo_serve.output import Output

SEQVEC = Rules(upper=True, split_char="|", field=1)


def write(path: Path, text: str) -> Text:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return Text(path, path.name, INPUTS["fasta"])


def records(text: Text, rules: Rules = SEQVEC, repeats: Repeats = "id") -> Records:
    return Records.read(text.name, [text], rules, repeats)


def read(rules: Rules, *lines: str) -> list[Sentence]:
    return list(rules.read(lines))


@pytest.mark.parametrize("name", ["a.fasta", "b/a.fa.gz", "a.faa", "a.fas.xz"])
def test_the_ending_of_a_file_tells_that_it_is_fasta(name: str) -> None:
    assert format_of(name) is INPUTS["fasta"]


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        (Rules(), "sp|P1>2|X a name"),
        (SEQVEC, "P12"),
        (Rules(split_char="|", field=0), "sp"),
        (Rules(split_char=" ", field=2), "name"),
        (Rules(split_char="|", field=-1), "sp|P12|X a name"),
    ],
)
def test_the_text_of_a_record_is_its_header_or_its_id_as_in_seqvec(rules: Rules, text: str) -> None:
    assert read(rules, ">sp|P1>2|X a name\n", "AC\n") == [Sentence(text, ["A", "C"])]


def test_a_header_without_the_field_names_the_record_and_what_is_allowed(tmp_path: Path) -> None:
    text = write(tmp_path / "in.fasta", ">a|b\nA\n>lonely\nC\n")

    with pytest.raises(FileError) as error:
        records(text)

    assert str(error.value) == (
        "in.fasta: record 2, 'lonely', has 1 field between '|', no --id 1; --id -1 takes the whole "
        "header"
    )


def test_letters_are_kept_made_upper_case_read_as_x_or_refused() -> None:
    lines = (">a\n", "Ac*-B\n")

    assert read(Rules(), *lines)[0].tokens == list("Ac*-B")
    assert read(Rules(upper=True), *lines)[0].tokens == list("AC*-B")
    assert read(Rules(upper=True, unknown="x"), *lines)[0].tokens == list("ACXXB")
    assert read(Rules(unknown="x", letters_only=True), *lines)[0].tokens == list("AXXXB")
    assert read(Rules(letters_only=True), ">a\n", "Ac\n")[0].tokens == ["A", "c"]
    with pytest.raises(FileError, match=r"record 1, 'a', holds '\*', '-', expected a to z, A to Z"):
        read(Rules(letters_only=True), *lines)
    with pytest.raises(FileError, match=r"holds '\*', '-', 'c', expected ABC"):
        read(Rules(unknown="refuse"), *lines)


def test_letters_that_no_protein_has_are_counted_and_named_once(tmp_path: Path) -> None:
    text = write(tmp_path / "in.fasta", ">x|P1\nAC*\n>x|P2\nab*\n>x|P3\nJ\n")

    (note,) = records(text).notes
    (as_x,) = records(text, Rules(unknown="x")).notes

    assert "'*' 2, 'J' 1" in note and "--unknown x" in note
    assert "'a' 1" in as_x and "--unknown" not in as_x


def test_the_last_of_an_id_counts_and_it_is_said(tmp_path: Path) -> None:
    text = write(tmp_path / "in.fasta", ">x|P1\nAC\n>x|P2\nD\n>x|P1\nEFG\n>x|P1\nH\n")

    found = records(text)

    assert [each.text for each in found.sentences()] == ["P2", "P1"]
    assert [each.tokens for each in found.sentences()] == [["D"], ["H"]]
    assert found.notes == ("in.fasta: 2 records left out: a later record has the same id",)


def test_the_memory_of_records_is_a_hash_each(tmp_path: Path) -> None:
    count, length = 5_000, 200
    text = write(
        tmp_path / "in.fasta", "".join(f">x|{n}\n{'AC*' * length}\n" for n in range(count))
    )

    tracemalloc.start()
    try:
        found = records(text)
        assert found.survey(LAYOUTS["seqvec-npz"].check(Output(layers=(0,)))).sentences == count
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < text.path.stat().st_size / 10


def test_an_empty_file_and_text_that_is_no_fasta_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"in\.fasta: holds no record, expected FASTA"):
        records(write(tmp_path / "in.fasta", "\n"))
    with pytest.raises(FileError, match=r"in\.fasta: line 1 is 'The cat', expected a header"):
        records(write(tmp_path / "in.fasta", "The cat\n"))


def test_the_files_of_a_folder_are_one_text(tmp_path: Path) -> None:
    """They are found by their endings, or as seqvec finds them."""
    write(tmp_path / "in/b.faa", ">x|2\nC\n")
    write(tmp_path / "in/deep/a.fasta.gz", ">x|3\nD\n>x|2\nE\n")
    write(tmp_path / "in/my_fasta.txt", ">x|4\nF\n")
    write(tmp_path / "in/notes.txt", "none\n")

    with Records.open(str(tmp_path / "in"), SEQVEC, "id") as found:
        assert [each.text for each in found.sentences()] == ["3", "2", "4"]
        before = found.digest()
        write(tmp_path / "in/b.faa", ">x|2\nG\n")
        assert found.digest() != before
    (tmp_path / "none").mkdir()
    with (
        pytest.raises(FileError, match="none: holds no FASTA, expected files that end in"),
        Records.open(str(tmp_path / "none"), SEQVEC),
    ):
        pass


@pytest.mark.parametrize("most", [1, 2, 3, 100])
@pytest.mark.parametrize("name", ["in.fasta", "in.fasta.gz"])
def test_parts_of_fasta_begin_at_their_headers(tmp_path: Path, name: str, most: int) -> None:
    """The reader sees the header of the next record before it yields one."""
    text = write(tmp_path / name, "\n>a b\nAC\nD\n\n>b\n>c\r\nEF\n>d\nG\nH")
    corpus = Corpus(text.path)

    found = [list(corpus.part(part).sentences()) for part in corpus.parts(most)]

    whole = list(text.sentences())
    assert [each.tokens for each in whole] == [list("ACD"), [], list("EF"), list("GH")]
    assert found == [whole[at : at + most] for at in range(0, len(whole), most)]
