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
    "truncated": (truncated, r"weights\.hdf5: is not a whole HDF5 file: .*truncated"),
    "unexpected dataset": (
        lambda f: with_dataset(f, "colour", np.zeros(3, dtype=np.float32)),
        r"weights\.hdf5: colour is found, but not expected",
    ),
    "wrong shape": (
        lambda f: misshapen(f, f"{CELL0}/B"),
        r"LSTMCell/B has shape \(33,\), expected \(32,\) by .*options\.json",
    ),
    "wrong type": (
        lambda f: with_dataset(f, "CNN/b_cnn_0", np.zeros(4, dtype=np.int64)),
        r"CNN/b_cnn_0 is of type int64, expected float32",
    ),
    "endless layers": (
        lambda f: change_options(f, "lstm", n_layers=1_000_000),
        r"Cell2/LSTMCell/W_0 is missing, expected by .*options\.json",
    ),
    "fewer layers": (
        lambda f: change_options(f, "lstm", n_layers=1),
        r"Cell1/.* is found, but not expected by .*options\.json",
    ),
    "not text": (lambda f: (f / "options.json").write_bytes(b"\xff\xfe\0"), r"is not JSON"),
    "deep JSON": (lambda f: (f / "options.json").write_text("[" * 99_999), r"is not JSON"),
    "too large": (
        lambda f: (f / "options.json").write_text(" " * (1 << 21)),
        r"options\.json: is larger than expected, at most 1,048,576 bytes",
    ),
    "word input": (
        lambda f: change_options(f, None, char_cnn=...),
        r"holds no vocab\.txt or vocab\.txt\.gz",
    ),
    "no options": (lambda f: (f / "options.json").unlink(), r"holds no options\.json"),
    "no weights": (lambda f: (f / "weights.hdf5").unlink(), r"holds no weights\.hdf5"),
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
    with pytest.raises(CheckpointError, match=r"CNN/b_cnn_0 stores .* bytes in this file"):
        load(folder)
    other = write_pair(tmp_path / "other")
    with h5py.File(weights_file(folder), "r+") as file:
        del file["CNN/b_cnn_0"]
        file["CNN/b_cnn_0"] = h5py.ExternalLink(str(weights_file(other)), "CNN/b_cnn_0")
    with pytest.raises(CheckpointError, match=r"CNN/b_cnn_0 is missing"):
        load(folder)


def test_a_damaged_zip_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = write_pair(tmp_path / "model")
    archive = Path(shutil.make_archive(str(folder), "zip", folder))
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match=r"model\.zip: cannot be read"):
        load(archive)
    broken = bytearray(whole)
    broken[len(whole) // 2] ^= 0xFF  # in the weights, which a checksum protects
    archive.write_bytes(broken)
    with pytest.raises(CheckpointError, match=r"model\.zip:weights\.hdf5: cannot be read"):
        load(archive)
