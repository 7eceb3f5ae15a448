"""FASTA given to `elmo embed`: ids, letters, layers and means of SeqVec, and models that fit."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet
import pytest

from elmo_model.checkpoints import load
from tests.support.command_line import elmo
from tests.support.embedding_runs import done, embed
from tests.support.scripted_server import INFO, respond, scripted_server
from tests.support.servers import SMALL
from tests.support.vectors import close, layers_of

MIGRATE = Path(__file__).parents[3] / "docs" / "migrate.md"


@pytest.fixture
def proteins(tmp_path: Path) -> Path:
    path = tmp_path / "in.fasta"
    path.write_text(">sp|P1|ONE_ECOLI of x\nseqw\nence\n>P2 kinase\nPROTEIN*\n")
    return path


@pytest.fixture(scope="module")
def layers() -> list[np.ndarray]:
    return layers_of(load(SMALL), [list("SEQWENCE"), list("PROTEIN*")])


@pytest.mark.parametrize(
    ("flags", "pick"),
    [
        ((), lambda each: each.sum(0)),
        (("--pooling", "mean", "--layer", "2"), lambda each: each[2].mean(0)),
    ],
)
def test_layers_and_means_are_those_of_seqvec(
    proteins: Path,
    tmp_path: Path,
    layers: list[np.ndarray],
    flags: tuple[str, ...],
    pick: Callable[[np.ndarray], np.ndarray],
) -> None:
    assert ": 2 sentences, 16 tokens in" in done(proteins, tmp_path / "out.h5", *flags)

    with h5py.File(tmp_path / "out.h5") as file:
        assert set(file) == {"P1", "P2"}
        close(file["P1"][()], pick(layers[0]))
        close(file["P2"][()], pick(layers[1]))


@pytest.mark.parametrize("ending", [".npz", ".parquet"])
def test_ordinary_sentences_have_one_vector_as_well(tmp_path: Path, ending: str) -> None:
    source, output = tmp_path / "in.txt", tmp_path / f"out{ending}"
    source.write_text("The cat sat .\na\n")
    (first, second) = layers_of(load(SMALL), [["The", "cat", "sat", "."], ["a"]])

    done(source, output, "--top", "--pooling", "mean")

    if ending == ".npz":
        with np.load(output) as found:
            vectors = [found["0"], found["1"]]
    else:
        column = pyarrow.parquet.read_table(output)["vectors"]
        vectors = [np.array(each.as_py(), np.float32) for each in column]
    close(vectors[0], first[-1].mean(0))
    close(vectors[1], second[-1].mean(0))


@pytest.mark.parametrize("flags", [(), ("--part-sentences", "2")])
def test_fasta_needs_a_model_where_that_of_a_server_is_english(
    proteins: Path, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    info = json.dumps({**INFO, "model": "english"}).encode()
    with scripted_server() as server:
        server.info = lambda handler, _: respond(handler, 200, info)
        output = tmp_path / "out"
        flags = ("--all", "--format", "npz", *flags, "--server", server.url)
        result = elmo("embed", proteins, output, *flags)

    assert result.exit_code == 2
    assert "english reads text: name a --model of proteins, such as seqvec" in result.stderr


def test_other_formats_and_parts_hold_records_as_well(proteins: Path, tmp_path: Path) -> None:
    for name, flags in (("out.parquet", ()), ("parts", ("--part-sentences", 1))):
        done(proteins, tmp_path / name, "--top", *flags)
        rows = pyarrow.parquet.read_table(tmp_path / name)["tokens"].to_pylist()
        assert rows == [list("SEQWENCE"), list("PROTEIN*")]


def test_the_script_of_the_page_writes_the_files_of_bio_embeddings(
    proteins: Path, tmp_path: Path, layers: list[np.ndarray]
) -> None:
    """goPredSim's `read_embeddings` takes the attribute `original_id` as the name."""
    section = MIGRATE.read_text(encoding="utf-8").split("\n### bio_embeddings\n")[1]
    (script,) = re.findall(r"<<'END'\n(.*?)\nEND\n", section.split("\n## ")[0], re.DOTALL)
    proteins.rename(tmp_path / "proteins.fasta")
    assert embed(tmp_path / "proteins.fasta", tmp_path / "vectors.h5", "--all").exit_code == 0

    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)

    with h5py.File(tmp_path / "embeddings_file.h5") as file:
        data = file[hashlib.md5(b"PROTEIN*", usedforsecurity=False).hexdigest()]
        assert data.attrs["original_id"] == "P2"
        close(data[()], layers[1])
    with h5py.File(tmp_path / "reduced_embeddings_file.h5") as file:
        reduced = {data.attrs["original_id"]: data[()] for data in file.values()}
    assert set(reduced) == {"sp|P1|ONE_ECOLI", "P2"}
    close(reduced["sp|P1|ONE_ECOLI"], layers[0].sum(0).mean(0))
