"""The alignment of mixed vectors."""

import torch

from elmo_model.network.alignment import align


def test_vectors_are_multiplied_by_the_matrix_from_the_left() -> None:
    matrix = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    assert align(torch.tensor([[3.0, 5.0]]), matrix).tolist() == [[5.0, 6.0]]


def test_without_a_matrix_vectors_stay_as_they_are() -> None:
    vectors = torch.ones(2, 3)
    assert align(vectors, None) is vectors
