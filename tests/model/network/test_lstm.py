"""The projected LSTM: gradients of the clips, the loop over time."""

import pytest
import torch

from elmo_model.network.config import LSTMConfig
from elmo_model.network.lstm import ProjectedLSTM, clip


def lstm() -> ProjectedLSTM:
    layer = ProjectedLSTM(LSTMConfig(1, 3, 2, None, None, True))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0, 1, generator=generator)
    return layer


def test_gradients_of_the_clips_stop_outside_and_pass_on_the_bound() -> None:
    values = torch.tensor([-2.0, -1.0, 0.5, 1.0, 1.5], requires_grad=True)
    torch.autograd.backward(clip(values, 1.0).sum())
    assert values.grad is not None and values.grad.tolist() == [0, 1, 1, 1, 0]
    assert clip(values, None) is values


@pytest.mark.parametrize("steps", [1, 4, 600])  # the last is more than one block of input products
@torch.no_grad()
def test_each_row_ends_with_the_state_of_its_own_last_step(steps: int) -> None:
    layer, generator = lstm(), torch.Generator().manual_seed(1)
    lengths = [steps, steps, (steps + 1) // 2]
    rows = [torch.randn(length, 2, generator=generator) for length in lengths]
    sizes = [sum(length > step for length in lengths) for step in range(steps)]
    packed = torch.stack(
        [rows[row][step] for step, size in enumerate(sizes) for row in range(size)]
    )
    h, c = torch.randn(3, 2, generator=generator), torch.randn(3, 3, generator=generator)

    _, last_h, last_c = layer(packed, sizes, h, c)

    for row, inputs in enumerate(rows):
        alone = layer(inputs, [1] * len(inputs), h[row : row + 1], c[row : row + 1])
        torch.testing.assert_close(last_h[row], alone[0][-1])
        torch.testing.assert_close(last_c[row : row + 1], alone[2])
