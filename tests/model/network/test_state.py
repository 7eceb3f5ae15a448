"""The values of a biLM: rows of the state by their place, vectors cut into sentences."""

import torch

from elmo_model.network.state import Representations, State


def test_rows_are_taken_and_carried_by_their_place() -> None:
    state = State(torch.ones(1, 2, 4), torch.ones(1, 2, 6))
    assert state.take(3).h[0, :, 0].tolist() == [1, 1, 0]
    assert state.take(1).rows == 1
    later = State(torch.full((1, 1, 4), 2.0), torch.full((1, 1, 6), 2.0))
    assert state.carry(later).c[0, :, 0].tolist() == [2, 1]
    assert later.carry(state).c[0, :, 0].tolist() == [1, 1]


def test_one_row_is_repeated_without_copying_memory() -> None:
    state = State(torch.ones(1, 1, 4), torch.ones(1, 1, 6)).repeat(1000)
    assert state.rows == 1000
    assert state.h.untyped_storage().nbytes() == 16


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
