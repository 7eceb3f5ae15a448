"""Models by name or path; the one with random weights is the same every time."""

import pytest
import torch

from elmo_model.checkpoints import CheckpointError
from elmo_model.models.opening import BUILT_IN, describe_model, open_model
from tests.support import golden


@pytest.mark.parametrize("name", [*BUILT_IN, str(golden.SMALL)])
def test_a_description_equals_the_opened_model(name: str) -> None:
    elmo = open_model(name)

    assert describe_model(name) == (elmo.config, elmo.origin)


@pytest.mark.parametrize("opening", [open_model, describe_model])
def test_an_unknown_name_is_explained(opening: object) -> None:
    assert callable(opening)
    with pytest.raises(CheckpointError, match="nglish: does not exist"):
        opening("nglish")


def test_it_has_the_published_small_shape_and_fixed_weights() -> None:
    first, second = open_model("random-small"), open_model("random-small")

    assert first.config.parameter_count == 13_593_296
    assert (first.config.layers, first.config.dimension) == (3, 256)
    assert first.origin == second.origin
    assert (first.origin.name, first.origin.format) == ("random-small", "random")
    vectors = first.embed([["the", "same"]])[0]
    assert torch.equal(vectors, second.embed([["the", "same"]])[0])
    assert vectors.isfinite().all() and (vectors.std(dim=(1, 2)) > 0.01).all()
