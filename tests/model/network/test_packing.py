"""Packing: every token once, rows that have ended take part in no further step."""

import pytest
import torch

from elmo_model.network.packing import Packing


@pytest.mark.parametrize("lengths", [[1], [3, 1, 4, 1, 5], [2, 2, 2], [7, 1], [1] * 9])
def test_packing_visits_every_token_once(lengths: list[int]) -> None:
    packing = Packing.of(lengths, torch.device("cpu"))
    total = sum(lengths)
    assert list(packing.sizes) == sorted(packing.sizes, reverse=True)
    assert sum(packing.sizes) == total and packing.sizes[0] == len(lengths)
    for positions in (packing.forward, packing.backward):
        assert torch.equal(positions.sort().values, torch.arange(total))
    assert torch.equal(packing.order[packing.rank], torch.arange(len(lengths)))
    assert packing.forward[: len(lengths)].sort().values.tolist() == [
        sum(lengths[:row]) for row in range(len(lengths))
    ]


def test_the_backward_direction_mirrors_each_sentence_within_its_own_length() -> None:
    packing = Packing.of([2, 3], torch.device("cpu"))
    assert packing.sizes == (2, 2, 1)
    assert packing.order.tolist() == [1, 0]
    assert packing.forward.tolist() == [2, 0, 3, 1, 4]
    assert packing.backward.tolist() == [4, 1, 3, 0, 2]
