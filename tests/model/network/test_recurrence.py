"""The time loop: rows end one after another, and blocks change nothing."""

import pytest
import torch
from torch import Tensor

from elmo_model.network.recurrence import blocks, run


def counting(inputs: list[float], sizes: list[int], block: int) -> tuple[Tensor, Tensor, Tensor]:
    """Run a loop in which h sums up the inputs of its row and c counts its steps."""
    rows = sizes[0]
    return run(
        torch.tensor(inputs)[:, None],
        sizes,
        torch.zeros(rows, 1),
        torch.zeros(rows, 1),
        input_gates=lambda positions: 10 * positions,
        step=lambda gates, h, c: (h + gates, c + 1),
        block=block,
    )


@pytest.mark.parametrize("block", [1, 2, 3, 5, 100])
def test_each_row_ends_with_the_state_of_its_own_last_step(block: int) -> None:
    packed, h, c = counting([1, 2, 3, 4, 5, 6], [3, 2, 1], block)
    assert packed.flatten().tolist() == [10, 20, 30, 50, 70, 110]
    assert h.flatten().tolist() == [110, 70, 30]
    assert c.flatten().tolist() == [3, 2, 1]


def test_no_steps_return_the_state() -> None:
    h, c = torch.ones(2, 1), torch.zeros(2, 1)
    packed, after, cells = run(
        torch.zeros(0, 1), [], h, c, input_gates=lambda x: x, step=lambda g, h, c: (h, c), block=4
    )
    assert packed.shape == (0, 1)
    assert torch.equal(after, h) and torch.equal(cells, c)


def test_blocks_hold_whole_steps_up_to_a_limit() -> None:
    assert list(blocks([3, 3, 2, 1], 6)) == [(0, [3, 3]), (6, [2, 1])]
    assert list(blocks([9, 1], 4)) == [(0, [9]), (9, [1])]  # a step is never cut
    assert list(blocks([], 4)) == []
