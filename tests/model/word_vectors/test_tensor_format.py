"""Word vectors as safetensors."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save as torch_save

from elmo_model.word_vectors.formats import WordVectorsError, tensors_of
from elmo_model.word_vectors.look_up import WordVectors
from elmo_model.word_vectors.store import store_folder

VECTORS = np.random.default_rng(0).normal(size=(2, 3))
WHOLE = tensors_of([b"the", b"cat"], VECTORS.astype(np.float32))
BFLOAT16 = torch_save(
    {"vectors": torch.zeros(2, 3, dtype=torch.bfloat16), "words": torch.zeros(7, dtype=torch.uint8)}
)


def test_vectors_of_another_type_become_float32(tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(tensors_of([b"the", b"cat"], VECTORS.astype(np.float16)))

    rows, _ = WordVectors.open(store_folder(path, tmp_path)).look_up(["the", "cat"])

    np.testing.assert_array_equal(rows, VECTORS.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (WHOLE[:-3], "is not whole safetensors"),
        (WHOLE.replace(b"words", b"texts"), "has the tensors texts, vectors; expected"),
        (BFLOAT16, "holds numbers of the type BF16, expected the tensors vectors, of float16"),
        (tensors_of([b"a", b"b"], VECTORS[:1].astype(np.float32)), "has 2 words and 1 vectors"),
        (tensors_of([b"a", b"b"], VECTORS.astype(np.float32) * np.inf), "is not finite"),
        (tensors_of([b"a"], VECTORS[:1, :0].astype(np.float32)), "the width is 0, expected from"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_with_the_reason(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(content)

    with pytest.raises(WordVectorsError, match=message):
        store_folder(path, tmp_path / "cache")
