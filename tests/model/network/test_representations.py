"""The vectors of a batch, cut into sentences."""

import torch

from elmo_model.network.representations import Representations


def test_sentences_are_views_and_boundaries_are_outside() -> None:
    layers = torch.arange(30.0).reshape(1, 5, 6)
    bounded = Representations(layers, (3, 2), bounded=True)
    first, second = bounded.sentences()
    assert first.shape == (1, 3, 6) and second.shape == (1, 2, 6)
    assert first.data_ptr() == layers.data_ptr()
    assert first[:, bounded.inside].shape == (1, 1, 6)
    assert second[:, bounded.inside].shape == (1, 0, 6)
    inside = Representations(layers, (3, 2), bounded=False)
    assert torch.equal(inside.sentences()[0][:, inside.inside], first)


def test_no_sentences_have_no_views() -> None:
    assert Representations(torch.zeros(3, 0, 4), (), bounded=False).sentences() == []
