"""The built-in random model: the published small shape, the same weights every time."""

import torch

from elmo_model.models.opening import load_built_in, open_model


def test_it_has_the_published_small_shape_and_fixed_weights() -> None:
    first, second = load_built_in("random-small"), open_model("random-small")

    assert first.config.parameter_count == 13_593_296
    assert (first.config.layers, first.config.dimension) == (3, 256)
    assert first.origin == second.origin
    assert (first.origin.name, first.origin.format) == ("random-small", "random")
    vectors = first.embed([["the", "same"]])[0]
    assert torch.equal(vectors, second.embed([["the", "same"]])[0])
    assert vectors.isfinite().all() and (vectors.std(dim=(1, 2)) > 0.01).all()
