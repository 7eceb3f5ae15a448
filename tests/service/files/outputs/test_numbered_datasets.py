"""HDF5 files: what the quick way writes is what h5py itself would."""

from pathlib import Path

import numpy as np
import pytest

from elmo_model.hdf5_writer import hdf5_writer
from elmo_serve.files.outputs.numbered_datasets import dataset_adder


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("shape", [(3, 8), (0, 8), (3, 2, 8)])
def test_a_numbered_dataset_is_the_one_that_h5py_makes(
    tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    arrays = [np.random.default_rng(n).random(shape).astype(dtype) for n in range(200)]
    arrays[7] = np.asfortranarray(arrays[7])

    with hdf5_writer(tmp_path / "ours") as (file, check):
        add = dataset_adder(file)
        for number, array in enumerate(arrays):
            add(number, array)
            check()
    with hdf5_writer(tmp_path / "theirs") as (file, _):
        for number, array in enumerate(arrays):
            file.create_dataset(str(number), data=array)

    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
