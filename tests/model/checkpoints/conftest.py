"""The golden pair that TensorFlow's checkpoints are compared with."""

import shutil
from pathlib import Path

import pytest

from tests.support import golden


@pytest.fixture
def dumped(tmp_path: Path) -> Path:
    """The pair that `dump_weights` of bilm-tf made of the weights in the golden checkpoint."""
    source, folder = golden.GOLDEN / "bilm_training" / "char", tmp_path / "dumped"
    folder.mkdir()
    shutil.copy(source / "options.json", folder / "options.json")
    shutil.copy(source / "dumped_init.hdf5", folder / "weights.hdf5")
    return folder
