"""HDF5 files: float32 datasets that store their bytes."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from elmo_model.checkpoints import CheckpointError, hdf5
from elmo_model.checkpoints.source import in_folder


@pytest.mark.parametrize("kind", [">f2", "<f4", "<f8", ">f8"])
def test_floats_are_cast(tmp_path: Path, kind: str) -> None:
    array = np.array([0.1, -2.5, 3e4], kind)
    hdf5.write(tmp_path / "a.hdf5", {"a": array})

    with hdf5.datasets(in_folder(tmp_path), "a.hdf5") as found:
        numbers = found.read("a")

    assert numbers.dtype == torch.float32
    np.testing.assert_array_equal(numbers, array.astype(np.float32))


def test_another_type_is_refused(tmp_path: Path) -> None:
    hdf5.write(tmp_path / "a.hdf5", {"a": np.ones(2, np.longdouble), "b": np.ones(2, np.int32)})

    with hdf5.datasets(in_folder(tmp_path), "a.hdf5") as found:
        for name in ("a", "b"):
            with pytest.raises(CheckpointError, match="float32"):
                found.read(name)


@pytest.mark.parametrize("error", [TypeError, KeyError, OSError])
def test_an_error_of_the_caller_is_its_own(tmp_path: Path, error: type[Exception]) -> None:
    hdf5.write(tmp_path / "a.hdf5", {"a": np.ones(2, np.float32)})
    with (
        pytest.raises(error, match="of the caller"),
        hdf5.datasets(in_folder(tmp_path), "a.hdf5"),
    ):
        raise error("of the caller")


def test_damage_is_named_while_a_dataset_is_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.create_dataset("a", data=np.arange(5000, dtype=np.float32), compression="gzip")
        place = file["a"].id.get_chunk_info(0).byte_offset
    content = bytearray((tmp_path / "a.hdf5").read_bytes())
    content[place : place + 64] = bytes(64)
    (tmp_path / "a.hdf5").write_bytes(content)
    with (
        hdf5.datasets(in_folder(tmp_path), "a.hdf5") as found,
        pytest.raises(CheckpointError, match="whole"),
    ):
        found.read("a")
