"""The loop of inference gives the results of the plain loop, with any row buckets."""

import pytest
import torch
from torch import Tensor

from elmo_model.inference import recurrence
from elmo_model.inference.row_buckets import RoundUp, exactly, four_at_least, in_steps
from elmo_model.network import recurrence as plain

SIZES = [11, 9, 9, 6, 3, 1, 1]


@pytest.mark.parametrize("round_up", [exactly, in_steps, four_at_least, lambda rows: rows + 5])
@pytest.mark.parametrize("block", [1, 8, 20, 100])
def test_surplus_rows_change_nothing(round_up: RoundUp, block: int) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(sum(SIZES), 3, generator=generator)
    h, c = (torch.randn(11, 3, generator=generator) for _ in range(2))
    rows: set[int] = set()

    def step(gates: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        assert len(gates) == len(h) == len(c)
        rows.add(len(gates))
        c = torch.tanh(gates + c) + 0.5 * h
        return c + gates, c

    expected = plain.run(inputs, SIZES, h, c, input_gates=torch.sin, step=step, block=block)
    rows.clear()
    found = recurrence.run(
        inputs, SIZES, h, c, input_gates=torch.sin, step=step, block=block, round_up=round_up
    )

    assert rows == {round_up(size) for size in SIZES}
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


def test_no_steps_return_the_state() -> None:
    h, c = torch.ones(2, 1), torch.zeros(2, 1)
    packed, after, cells = recurrence.run(
        torch.zeros(0, 1), [], h, c,
        input_gates=torch.sin, step=lambda g, h, c: (h, c), block=4, round_up=in_steps,
    )  # fmt: skip
    assert packed.shape == (0, 1)
    assert torch.equal(after, h) and torch.equal(cells, c)
