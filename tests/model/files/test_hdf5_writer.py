"""HDF5 files on a full disk: an OSError, in a process that lives on."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo_model.files.hdf5_writer import hdf5_writer
from tests.support.files import full_disk

ARRAYS = {f"group_{number}/array": np.full(1000, number, np.float32) for number in range(40)}


def write(path: Path) -> None:
    with hdf5_writer(path) as (file, check):
        for name, array in ARRAYS.items():
            file[name] = array
            check()


def test_a_written_file_is_read_back(tmp_path: Path) -> None:
    write(tmp_path / "a.hdf5")

    with h5py.File(tmp_path / "a.hdf5") as file:
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(file[name][()], array)


@pytest.mark.parametrize("room", [0, 100, 5_000, 50_000, 150_000])
def test_a_full_disk_is_an_os_error(tmp_path: Path, room: int) -> None:
    with full_disk(room), pytest.raises(OSError, match="File too large"):
        write(tmp_path / "a.hdf5")

    write(tmp_path / "b.hdf5")
