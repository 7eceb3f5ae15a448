"""SeqVec's vectors of two proteins, as bio_embeddings keeps them for its own tests.

They need the published weights, 360 MB, which are not part of this project: those in the cache of
bio_embeddings, or at the path in SEQVEC. Without them the layout of the vectors is compared alone.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from elmo_model.checkpoints import load
from tests.support.golden import GOLDEN
from tests.support.servers import SMALL

SEQUENCES = {"test_case 1": "PROTEIN", "test_case 2": "SEQWENCE"}
CACHE = Path.home() / ".cache/bio_embeddings/seqvec"


def embed(checkpoint: Path) -> dict[str, np.ndarray]:
    found = load(checkpoint).embed([list(each) for each in SEQUENCES.values()])
    return {name: each.numpy() for name, each in zip(SEQUENCES, found, strict=True)}


@pytest.fixture(scope="module")
def reference() -> dict[str, np.ndarray]:
    with np.load(GOLDEN / "bio_embeddings" / "seqvec.npz") as members:
        return dict(members)


def check_layout(vectors: Mapping[str, np.ndarray]) -> None:
    """Check that the token layer is there twice, and knows nothing but the residue."""
    residues: dict[str, np.ndarray] = {}
    for name, sequence in SEQUENCES.items():
        layers = vectors[name]
        assert layers.shape[:2] == (3, len(sequence)) and layers.dtype == np.float32
        first, second = np.split(layers[0], 2, axis=1)
        np.testing.assert_array_equal(first, second)
        for residue, vector in zip(sequence, first, strict=True):
            np.testing.assert_array_equal(residues.setdefault(residue, vector), vector)
    assert not np.array_equal(*(vectors["test_case 2"][1, [1, 4]]))  # two E in other places


def test_vectors_have_the_layout_of_seqvec(reference: dict[str, np.ndarray]) -> None:
    check_layout(reference)
    check_layout(embed(SMALL))


def test_vectors_are_those_of_seqvec(reference: dict[str, np.ndarray]) -> None:
    """They were computed from zero states; the tolerance is that of bio_embeddings' own test."""
    weights = Path(os.environ.get("SEQVEC", CACHE))
    if not weights.exists():
        pytest.skip(f"{weights}: SeqVec's weights are not here; SEQVEC may name them")

    for name, vectors in embed(weights).items():
        np.testing.assert_allclose(vectors, reference[name], rtol=1e-3, atol=1e-5)
