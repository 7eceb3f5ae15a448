"""A language model with its softmax: the golden checkpoint of bilm-tf with its vocabulary."""

import shutil
from pathlib import Path

from tests.support import training_golden as golden


def write_bundle(folder: Path) -> Path:
    """Write the checkpoint as TensorFlow saved it; return the folder."""
    shutil.copytree(golden.FOLDER.parent / "tensorflow" / "bilm_tf", folder)
    shutil.copy(golden.FOLDER / "vocab.txt", folder)
    return folder
