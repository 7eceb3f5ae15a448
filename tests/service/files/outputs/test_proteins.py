"""The three layouts of proteins, read as the tools read them whose layouts they are."""

from __future__ import annotations

import csv
import hashlib
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo_model.network.elmo import ElmoNetwork
from elmo_serve.files.inputs import INPUTS
from elmo_serve.files.options import EmbedOptions
from elmo_serve.files.outputs.proteins import LAYOUTS, STAGE
from elmo_serve.files.proteins import Records
from elmo_serve.files.run import EmbedRun, Report
from elmo_serve.files.text import Text
from elmo_serve.files.vectors import LengthSorted
from elmo_serve.models.in_process import InProcess, open_network
from tests.support.embedding_runs import close, done, embed, layers_of, refused

SEQUENCES = {"P1": "SEQWENCE", "P2": "PROTEIN", "P3": "", "P4": "ACDEFGHIKLMNPQRSTVWY" * 4}
HEADERS = {name: f"sp|{name}|{name}_ECOLI Protein, of {name}" for name in SEQUENCES}


@pytest.fixture
def proteins(tmp_path: Path) -> Path:
    path = tmp_path / "in.fasta"
    path.write_text("".join(f">{HEADERS[name]}\n{SEQUENCES[name]}\n" for name in SEQUENCES))
    return path


@pytest.fixture(scope="module")
def sums(elmo: ElmoNetwork) -> dict[str, np.ndarray]:
    found = layers_of(elmo, [list(each) for each in SEQUENCES.values()])
    return {name: each.sum(0) for name, each in zip(SEQUENCES, found, strict=True)}


def test_seqvec_has_the_sum_under_the_id(
    proteins: Path, tmp_path: Path, sums: dict[str, np.ndarray]
) -> None:
    """The layout of FASTA unless another is named."""
    said = done(proteins, tmp_path / "out.h5")
    done(proteins, tmp_path / "out.npz")

    assert ": 4 proteins, 95 residues in" in said
    with h5py.File(tmp_path / "out.h5") as file, np.load(tmp_path / "out.npz") as members:
        assert set(file) == set(members.files) == set(SEQUENCES)
        for name, vectors in sums.items():
            close(file[name][()], vectors)
            np.testing.assert_array_equal(members[name], file[name][()])
            assert file[name].chunks is None and file[name].compression is None


def test_an_id_with_a_slash_makes_groups_and_two_that_cannot_be_are_named(tmp_path: Path) -> None:
    source = tmp_path / "in.fasta"
    source.write_text(">x|a/b\nAC\n>x|c\nD\n")
    done(source, tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["a"]["b"].shape == (2, 32)

    source.write_text(">x|a/b\nAC\n>x|a\nD\n")
    line = refused(source, tmp_path / "b.h5")
    assert "in.fasta: record 2, 'a', cannot be a key" in line


# bio_embeddings


def read_by_gopredsim(path: Path) -> dict[str, np.ndarray]:
    """Read vectors by the rule of goPredSim's `read_embeddings`: the attribute is the name."""
    with h5py.File(path) as file:
        return {data.attrs["original_id"]: np.array(data) for data in file.values()}


def md5(sequence: str) -> str:
    return hashlib.md5(sequence.encode(), usedforsecurity=False).hexdigest()


def folder_of(proteins: Path, *flags: object) -> Path:
    prefix = proteins.with_name("prefix")
    done(proteins, prefix, "--layout", "bio_embeddings", *flags)
    return prefix


def test_a_folder_of_bio_embeddings_has_vectors_by_the_sequence(
    proteins: Path, elmo: ElmoNetwork
) -> None:
    prefix = folder_of(proteins)
    stage = prefix / "seqvec_embeddings"

    assert {path.name for path in prefix.iterdir()} == {"mapping_file.csv", stage.name}
    assert [path.name for path in stage.iterdir()] == ["embeddings_file.h5"]
    (layers,) = layers_of(elmo, [list("SEQWENCE")])
    with h5py.File(stage / "embeddings_file.h5") as file:
        assert set(file) == {md5(sequence) for sequence in SEQUENCES.values()}
        close(file[md5("SEQWENCE")][()], layers)
        assert file[md5("SEQWENCE")].attrs["original_id"] == "sp|P1|P1_ECOLI"
        assert file[md5("")].shape == (3, 0, 32)


def test_one_vector_a_protein_is_the_reduced_file_of_bio_embeddings(
    proteins: Path, sums: dict[str, np.ndarray]
) -> None:
    stage = folder_of(proteins, "--protein") / "seqvec_embeddings"

    assert [path.name for path in stage.iterdir()] == ["reduced_embeddings_file.h5"]
    reduced = read_by_gopredsim(stage / "reduced_embeddings_file.h5")
    assert set(reduced) == {header.split()[0] for header in HEADERS.values()}
    close(reduced["sp|P2|P2_ECOLI"], sums["P2"].mean(0))
    assert not reduced["sp|P3|P3_ECOLI"].any()


def test_the_mapping_of_bio_embeddings_is_in_the_order_of_the_input(proteins: Path) -> None:
    rows = list(csv.reader((folder_of(proteins) / "mapping_file.csv").read_text().splitlines()))

    assert rows[0] == ["", "original_id", "sequence_length"]
    assert rows[1:] == [
        [md5(sequence), HEADERS[name].split()[0], str(len(sequence))]
        for name, sequence in SEQUENCES.items()
    ]


def test_a_sequence_that_repeats_is_written_once_with_both_ids_in_the_mapping(
    tmp_path: Path,
) -> None:
    source = tmp_path / "in.fasta"
    source.write_text(">a\nACD\n>b\nACD\n>c\nE\n")

    result = embed(source, tmp_path / "prefix", "--layout", "bio_embeddings", "--protein")

    assert "1 record with the sequence of another: it is written once" in result.stderr
    rows = (tmp_path / "prefix/mapping_file.csv").read_text().splitlines()
    assert [row.split(",")[1] for row in rows[1:]] == ["a", "b", "c"]
    stage = tmp_path / "prefix/seqvec_embeddings"
    assert set(read_by_gopredsim(stage / "reduced_embeddings_file.h5")) == {"a", "c"}


def test_lower_case_is_kept_by_bio_embeddings_and_what_is_no_letter_refused(
    tmp_path: Path, elmo: ElmoNetwork
) -> None:
    source = tmp_path / "in.fasta"
    source.write_text(">a\nacd\n")
    prefix = source.with_name("prefix")
    result = embed(source, prefix, "--layout", "bio_embeddings")
    assert "--upper" in result.stderr
    with h5py.File(prefix / "seqvec_embeddings/embeddings_file.h5") as file:
        close(file[md5("acd")][()], layers_of(elmo, [list("acd")])[0])

    source.write_text(">a\nAC*\n")
    line = refused(source, tmp_path / "b", "--layout", "bio_embeddings")
    assert f"{source}: record 1, 'a', holds '*', expected a to z, A to Z" in line
    assert "deletes it" in line  # as X it would be a residue
    done(source, tmp_path / "b.h5", "--id", -1)  # seqvec keeps it


def test_a_folder_that_exists_is_never_replaced(proteins: Path) -> None:
    folder_of(proteins)

    line = refused(proteins, proteins.with_name("prefix"), "--layout", "bio_embeddings", "--force")

    assert "prefix is a folder that exists; name another, or remove it" in line


# biotrainer


def test_biotrainer_finds_a_sequence_by_its_hash(
    proteins: Path, tmp_path: Path, sums: dict[str, np.ndarray]
) -> None:
    """By the rules of its `calculate_sequence_hash` and `load_embeddings`."""
    done(proteins, tmp_path / "out.h5", "--layout", "biotrainer")

    with h5py.File(tmp_path / "out.h5") as file:
        assert len(file) == 4
        for name, sequence in SEQUENCES.items():
            key = hashlib.sha256(f"{sequence}_{len(sequence)}".encode()).hexdigest()
            close(np.array(file[key]), sums[name])
            assert file[key].attrs["original_id"] == HEADERS[name].split()[0]
            assert file[key].compression == ("gzip" if sequence else None)
    line = refused(proteins, tmp_path / "b.h5", "--layout", "biotrainer", "--all", code=2)
    assert "holds one vector per token: in place of --all" in line


# Runs that are killed


class EndError(Exception):
    """The end of a process, after which the disk holds what it had written."""


@pytest.fixture(scope="module")
def network(elmo: ElmoNetwork) -> InProcess:
    """The golden model, which computes each sequence by itself."""
    return replace(open_network(elmo), batch_tokens=1)


def run(
    proteins: Path, output: Path, name: str, network: InProcess, ends: tuple[str, int] = ("", 0)
) -> Report:
    """Write a layout; end at a step, after so many residues."""
    layout = LAYOUTS[name].layout
    assert layout is not None
    text = Text(proteins, "in.fasta", INPUTS["fasta"])
    options = EmbedOptions(None, name, input=str(proteins), output=str(output))
    source = LengthSorted(network, options.selected(network.info))

    def step(name: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        if name == ends[0] and done >= ends[1]:
            raise EndError

    records = Records.read("in.fasta", [text], layout.rules, layout.repeats)
    job = EmbedRun(records, options.form, source, step, part_seconds=0)
    return job.to_file(output, options.identity(network.info))


def content(output: Path) -> dict[str, bytes]:
    """Return the bytes of a file, or of all files of a folder, by their names."""
    files = output.rglob("*") if output.is_dir() else [output]
    return {path.name: path.read_bytes() for path in files if path.is_file()}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize(("ends", "resumed"), [(("Embedding", 16), 2), (("Writing", 15), 4)])
def test_a_run_that_ended_early_continues_and_the_file_is_whole_or_absent(
    proteins: Path,
    tmp_path: Path,
    network: InProcess,
    name: str,
    ends: tuple[str, int],
    resumed: int,
) -> None:
    whole, output = tmp_path / "whole" / "out", tmp_path / "again" / "out"
    whole.parent.mkdir()
    output.parent.mkdir()
    run(proteins, whole, name, network)

    with pytest.raises(EndError):
        run(proteins, output, name, network, ends)
    assert not output.exists()
    if name == "bio_embeddings":  # SIGKILL leaves what was being written
        torn = output.parent / "out.parts" / ".elmo-output" / STAGE
        torn.mkdir(parents=True)
        (torn / "embeddings_file.h5").write_bytes(b"torn")
    report = run(proteins, output, name, network)

    assert report.resumed == resumed
    assert content(output) == content(whole)
    assert [path.name for path in output.parent.iterdir()] == ["out"]
