"""The projected LSTM: the order of the gates, the forget bias, the clips, the loop over time."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from elmo_model.network.config import LSTMConfig
from elmo_model.network.lstm import ProjectedLSTM, blocks, clip


def sigmoid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-values))


def lstm(
    *, projected: bool = True, forget_bias: float = 1.0, cell_clip: float | None = None
) -> ProjectedLSTM:
    width = 2 if projected else 3
    layer = ProjectedLSTM(
        LSTMConfig(1, 3, width, cell_clip, None, True, projected=projected, forget_bias=forget_bias)
    )
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0, 1, generator=generator)
    return layer


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("forget_bias", [1.0, 0.0])
@torch.no_grad()
def test_gates_are_stored_as_input_candidate_forget_output(
    projected: bool, forget_bias: float
) -> None:
    """The trap of the files: this order, and a forget bias that bilm-tf adds at run time."""
    layer = lstm(projected=projected, forget_bias=forget_bias)
    width = layer.input.in_features
    x, h, c = torch.randn(1, width), torch.randn(1, width), torch.randn(1, 3)

    found, _, cell = layer(x, [1], h, c)

    weights = [layer.input.weight, layer.recurrent.weight, layer.bias]
    w, u, b = (weight.double().numpy() for weight in weights)
    i, j, f, o = np.split(w @ x[0].double().numpy() + u @ h[0].double().numpy() + b, 4)
    expected = sigmoid(f + forget_bias) * c[0].numpy() + sigmoid(i) * np.tanh(j)
    output = sigmoid(o) * np.tanh(expected)
    if projected:
        output = layer.get_parameter("projection.weight").double().numpy() @ output
    np.testing.assert_allclose(cell[0].numpy(), expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found[0].numpy(), output, rtol=0, atol=1e-5)


def test_the_cell_is_clipped_before_the_next_step() -> None:
    layer = lstm(cell_clip=0.1)
    _, _, cell = layer(torch.randn(2, 2), [1, 1], torch.zeros(1, 2), torch.ones(1, 3))
    assert cell.abs().max() <= 0.1


def test_an_output_without_projection_is_not_clipped() -> None:
    config = LSTMConfig(1, 3, 3, None, 0.01, True, projected=False)
    assert ProjectedLSTM(config).projection_clip is None


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


def test_no_steps_return_the_state() -> None:
    h, c = torch.ones(2, 2), torch.zeros(2, 3)
    packed, after, cells = lstm()(torch.zeros(0, 2), [], h, c)
    assert packed.shape == (0, 2)
    assert torch.equal(after, h) and torch.equal(cells, c)


def test_blocks_hold_whole_steps_up_to_a_limit() -> None:
    assert list(blocks([3, 3, 2, 1], 6)) == [(0, [3, 3]), (6, [2, 1])]
    assert list(blocks([9, 1], 4)) == [(0, [9]), (9, [1])]  # a step is never cut
    assert list(blocks([], 4)) == []
