"""Models by name or path; the one with random weights is the same every time."""

import pytest
import torch

from elmo_model.checkpoints import CheckpointError
from elmo_model.models.opening import open_model


def test_it_has_the_published_small_shape_and_fixed_weights() -> None:
    first, second = open_model("random-small"), open_model("random-small")

    assert first.config.parameter_count == 13_593_296
    assert (first.config.layers, first.config.dimension) == (3, 256)
    assert first.origin == second.origin
    assert (first.origin.name, first.origin.format) == ("random-small", "random")
    vectors = first.embed([["the", "same"]])[0]
    assert torch.equal(vectors, second.embed([["the", "same"]])[0])
    assert vectors.isfinite().all() and (vectors.std(dim=(1, 2)) > 0.01).all()


def test_an_unknown_name_is_explained() -> None:
    with pytest.raises(CheckpointError, match="nglish: does not exist"):
        open_model("nglish")
