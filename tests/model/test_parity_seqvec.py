"""SeqVec's vectors of two proteins, as bio_embeddings keeps them for its own tests.

They need the published weights, 360 MB, which are not part of this project: those in the cache of
bio_embeddings, or at the path in SEQVEC.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from elmo_model.checkpoints import load
from tests.support.golden import GOLDEN

SEQUENCES = {"test_case 1": "PROTEIN", "test_case 2": "SEQWENCE"}
CACHE = Path.home() / ".cache/bio_embeddings/seqvec"


def test_vectors_are_those_of_seqvec() -> None:
    """They were computed from zero states; the tolerance is that of bio_embeddings' own test."""
    weights = Path(os.environ.get("SEQVEC", CACHE))
    if not weights.exists():
        pytest.skip(f"{weights}: SeqVec's weights are not here; SEQVEC may name them")

    vectors = load(weights).embed([list(each) for each in SEQUENCES.values()])
    with np.load(GOLDEN / "bio_embeddings" / "seqvec.npz") as reference:
        for name, layers in zip(SEQUENCES, vectors, strict=True):
            np.testing.assert_allclose(layers.numpy(), reference[name], rtol=1e-3, atol=1e-5)
