"""FASTA given to `elmo embed`: SeqVec's layout, its ids and layers, and options that do not fit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet
import pytest

from elmo_model.checkpoints import load
from tests.support.command_line import elmo
from tests.support.embedding_runs import close, embed, layers_of
from tests.support.scripted_server import INFO, respond, scripted_server
from tests.support.servers import SMALL


@pytest.fixture
def proteins(tmp_path: Path) -> Path:
    path = tmp_path / "in.fasta"
    path.write_text(">sp|P1|ONE_ECOLI\nseqw\nence\n>sp|P2|TWO_ECOLI\nPROTEIN*\n")
    return path


@pytest.fixture(scope="module")
def layers() -> list[np.ndarray]:
    return layers_of(load(SMALL), [list("SEQWENCE"), list("PROTEIN*")])


@pytest.mark.parametrize(
    ("flags", "pick"),
    [
        ((), lambda each: each.sum(0)),
        (("--concat",), lambda each: np.concatenate(each, axis=1)),
        (("--layer", "0"), lambda each: each[0]),
        (("--layer", "2"), lambda each: each[2]),
        (("--protein",), lambda each: each.sum(0).mean(0)),
        (("--protein", "--layer", "2"), lambda each: each[2].mean(0)),
    ],
)
def test_layers_and_means_are_those_of_seqvec(
    proteins: Path,
    tmp_path: Path,
    layers: list[np.ndarray],
    flags: tuple[str, ...],
    pick: Callable[[np.ndarray], np.ndarray],
) -> None:
    result = embed(proteins, tmp_path / "out.h5", *flags)

    assert result.exit_code == 0, result.output
    with h5py.File(tmp_path / "out.h5") as file:
        assert set(file) == {"P1", "P2"}
        close(file["P1"][()], pick(layers[0]))
        close(file["P2"][()], pick(layers[1]))


@pytest.mark.parametrize("model", ["english", "random-small", "original"])
def test_fasta_needs_a_model_that_is_named(proteins: Path, tmp_path: Path, model: str) -> None:
    """ELMO_MODEL is what `elmo serve` of this machine serves."""
    folder = tmp_path / "in"
    folder.mkdir()
    shutil.copy(proteins, folder)

    for source in (proteins, folder):
        for flags in ((), ("--top",)):
            result = elmo("embed", source, tmp_path / "out.h5", *flags, ELMO_MODEL=model)
            assert result.exit_code == 2
            assert f"{model} reads text: name a --model of proteins" in result.stderr


@pytest.mark.parametrize("flags", [("--all",), ("--all", "--part-sentences", "2")])
def test_fasta_needs_a_model_where_that_of_a_server_is_english(
    proteins: Path, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    info = json.dumps({**INFO, "model": "english"}).encode()
    with scripted_server() as server:
        server.info = lambda handler, _: respond(handler, 200, info)
        output = tmp_path / "out"
        flags = (*flags, "--format", "npz", "--server", server.url)
        result = elmo("embed", proteins, output, *flags)

    assert result.exit_code == 2
    assert "english reads text: name a --model of proteins, such as seqvec" in result.stderr


def test_other_formats_hold_records_as_well(proteins: Path, tmp_path: Path) -> None:
    flags = ("--top", "--upper", "--unknown", "x")
    assert embed(proteins, tmp_path / "out.parquet", *flags).exit_code == 0
    assert embed(proteins, tmp_path / "parts", *flags, "--part-sentences", 1).exit_code == 0

    tokens = pyarrow.parquet.read_table(tmp_path / "out.parquet")["tokens"].to_pylist()
    parts = pyarrow.parquet.read_table(tmp_path / "parts")["tokens"].to_pylist()
    assert tokens == parts == [list("SEQWENCE"), list("PROTEINX")]
