"""The values of a biLM: rows of the state by their place, vectors cut into sentences."""

import torch

from elmo_model.network.config import LSTMConfig
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


def test_directions_are_halves_and_join_again() -> None:
    state = State(torch.arange(8.0).reshape(1, 2, 4), torch.arange(12.0).reshape(1, 2, 6))
    forward, backward = state.directions()
    assert forward[0][0].tolist() == [[0, 1], [4, 5]]
    assert backward[1][0].tolist() == [[3, 4, 5], [9, 10, 11]]
    joined = State.join(forward, backward)
    assert torch.equal(joined.h, state.h) and torch.equal(joined.c, state.c)


def test_zero_has_the_type_and_the_sizes_of_its_network() -> None:
    config = LSTMConfig(2, 6, 4, None, None, True)
    state = State.zero(config, torch.ones(1, dtype=torch.float64), 3)
    assert state.h.shape == (2, 3, 8) and state.c.shape == (2, 3, 12)
    assert state.h.dtype == torch.float64 and not state.c.any()


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
