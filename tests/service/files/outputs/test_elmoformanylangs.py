"""The files of ELMoForManyLangs."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo_model.network.elmo import ElmoNetwork
from elmo_serve.files.inputs import FileError, Sentence
from elmo_serve.files.outputs.elmoformanylangs import HDF5, key
from elmo_serve.selection import Output
from tests.support.embedding_runs import done
from tests.support.vectors import close, layers_of


def test_files_of_elmoformanylangs(tmp_path: Path, elmo: ElmoNetwork) -> None:
    source = tmp_path / "in.txt"
    source.write_text("two words\tand/or\t.\nx\nx\n", encoding="utf-8")
    flags = ("--average", "--input-format", "tab", "--format")

    done(source, tmp_path / "out.hdf5", *flags, "elmoformanylangs")
    done(source, tmp_path / "out.txt", *flags, "elmoformanylangs-text")

    means = [each.mean(0) for each in layers_of(elmo, [["two words", "and/or", "."], ["x"]])]
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert set(file) == {"two words\tand$backslash$or\t$period$", "x"}
        close(file["two words\tand$backslash$or\t$period$"][()], means[0])
    blocks = (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n\n")
    assert blocks.pop() == ""
    rows = [line.split("\t") for line in blocks[0].split("\n")]
    assert [row[0] for row in rows] == ["two words", "and/or", "."]
    assert all(len(number.split(".")[1]) == 8 for number in rows[0][1:])
    np.testing.assert_allclose(np.array([row[1:] for row in rows], float), means[0], atol=1e-5)
    assert len(blocks) == 3


def test_dots_and_slashes_of_a_key_are_written_out() -> None:
    assert key(["U.S.", "and/or"]) == "U$period$S$period$\tand$backslash$or"


@pytest.mark.parametrize("tokens", [[], [""]])
def test_a_sentence_that_hdf5_cannot_name_is_refused(tokens: list[str]) -> None:
    with pytest.raises(FileError, match="HDF5"):
        HDF5.check(Output(layers=(0,)))(Sentence("x", tokens))
