"""Files of static word vectors."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elmo_model.word_vectors import write_word_vectors


def write_static(folder: Path, **words: Sequence[float]) -> Path:
    """Write the vectors of some words to `static.safetensors` in a folder; return its path."""
    pairs = ((word.encode(), np.array(row, np.float32)) for word, row in words.items())
    write_word_vectors(folder / "static.safetensors", pairs)
    return folder / "static.safetensors"
