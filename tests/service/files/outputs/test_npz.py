"""An .npz with the arrays of the service."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from elmo_model.network.elmo import ElmoNetwork
from elmo_serve.files.inputs import Sentence
from elmo_serve.files.outputs.npz import FORMAT
from elmo_serve.files.outputs.output_format import Facts
from elmo_serve.selection import Output
from elmo_serve.workers.messages import ModelInfo
from tests.support.embedding_runs import TEXT, done
from tests.support.vectors import close, layers_of

FACTS = Facts(ModelInfo("m", "1", "none", 1, 3, 0, "float32"), Output(layers=(0,)))


def test_npz_has_the_keys_of_the_service(text: Path, tmp_path: Path, elmo: ElmoNetwork) -> None:
    done(text, tmp_path / "out.npz", "--all")

    expected = layers_of(elmo, [line.split() for line in TEXT])
    with np.load(tmp_path / "out.npz", allow_pickle=False) as file:
        assert file.files == ["0", "1", "2", "3", "4"]
        for number, layers in enumerate(expected):
            close(file[str(number)], layers)


def test_equal_vectors_make_equal_files(tmp_path: Path) -> None:
    """The date of a member is fixed, and the arrays of one shape share a header."""
    for name in ("one", "two"):
        items = ((Sentence("", []), np.full((2, 3), n, np.float32, "F")) for n in range(3))
        FORMAT.write(tmp_path / name, items, FACTS)

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with zipfile.ZipFile(tmp_path / "one") as archive:
        assert {member.compress_type for member in archive.infolist()} == {zipfile.ZIP_STORED}
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    with np.load(tmp_path / "one") as file:
        assert [file[name].tolist() for name in file] == [[[float(n)] * 3] * 2 for n in range(3)]
