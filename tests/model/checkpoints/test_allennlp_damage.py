"""Damaged published pairs: each is refused in one line that names file, key, found, expected."""

import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo_model.checkpoints import CheckpointError, load
from tests.support.checkpoints import (
    change_options,
    misshapen,
    truncated,
    weights_file,
    with_dataset,
    write_pair,
)

CELL0 = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"

Damage = Callable[[Path], object]

REFUSED: dict[str, tuple[Damage, str]] = {
    "truncated": (truncated, "whole HDF5"),
    "unexpected dataset": (
        lambda f: with_dataset(f, "colour", np.zeros(3, dtype=np.float32)),
        "colour",
    ),
    "wrong shape": (lambda f: misshapen(f, f"{CELL0}/B"), r"B has shape \(33,\)"),
    "wrong type": (lambda f: with_dataset(f, "CNN/b_cnn_0", np.zeros(4, dtype=np.int64)), "int64"),
    "endless layers": (
        lambda f: change_options(f, "lstm", n_layers=1_000_000),
        "Cell2/LSTMCell/W_0 is missing",
    ),
    "fewer layers": (lambda f: change_options(f, "lstm", n_layers=1), "Cell1/"),
    "not text": (lambda f: (f / "options.json").write_bytes(b"\xff\xfe\0"), "JSON"),
    "deep JSON": (lambda f: (f / "options.json").write_text("[" * 99_999), "JSON"),
    "too large": (lambda f: (f / "options.json").write_text(" " * (1 << 21)), "1,048,576 bytes"),
    "word input": (lambda f: change_options(f, None, char_cnn=...), "vocab"),
    "no options": (lambda f: (f / "options.json").unlink(), "holds no options"),
    "no weights": (lambda f: (f / "weights.hdf5").unlink(), "holds no weights"),
}


@pytest.mark.parametrize(("damage", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_damaged_pair_is_refused_in_one_line(
    tmp_path: Path, damage: Damage, message: str
) -> None:
    folder = write_pair(tmp_path / "model")
    damage(folder)
    with pytest.raises(CheckpointError, match=message) as refusal:
        load(folder)
    assert "\n" not in str(refusal.value)
    assert str(folder) in str(refusal.value)


def test_data_outside_of_the_file_is_not_followed(tmp_path: Path) -> None:
    folder, secret = write_pair(tmp_path / "model"), tmp_path / "secret.bin"
    secret.write_bytes(b"\0" * 16)
    with h5py.File(weights_file(folder), "r+") as file:
        del file["CNN/b_cnn_0"]
        file.create_dataset("CNN/b_cnn_0", (4,), dtype="f4", external=[(str(secret), 0, 16)])
    with pytest.raises(CheckpointError, match="bytes in this file"):
        load(folder)
    other = write_pair(tmp_path / "other")
    with h5py.File(weights_file(folder), "r+") as file:
        del file["CNN/b_cnn_0"]
        file["CNN/b_cnn_0"] = h5py.ExternalLink(str(weights_file(other)), "CNN/b_cnn_0")
    with pytest.raises(CheckpointError, match="is missing"):
        load(folder)


def test_a_damaged_zip_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = write_pair(tmp_path / "model")
    archive = Path(shutil.make_archive(str(folder), "zip", folder))
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match=r"model\.zip: "):
        load(archive)
    broken = bytearray(whole)
    broken[len(whole) // 2] ^= 0xFF  # in the weights, which a checksum protects
    archive.write_bytes(broken)
    with pytest.raises(CheckpointError, match=r"model\.zip:weights"):
        load(archive)
