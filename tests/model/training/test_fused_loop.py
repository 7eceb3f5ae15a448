"""The fused loop has the outputs and gradients of the network's own loop."""

import pytest
import torch

from elmo_model.network.config import LSTMConfig
from elmo_model.network.lstm import ProjectedLSTM
from elmo_model.training.fused_loop import fused_loop

STEPS, ROWS = 6, 3
Tensors = list[torch.Tensor]


def lstm(bound: float | None = None, *, projected: bool = True) -> ProjectedLSTM:
    made = ProjectedLSTM(
        LSTMConfig(1, 7 if projected else 4, 4, bound, bound, skip=False, projected=projected)
    )
    generator = torch.Generator().manual_seed(3)
    for parameter in made.parameters():  # so large that the clips have an effect
        parameter.data = torch.randn(parameter.shape, dtype=torch.float64, generator=generator)
    return made.double()


def numbers(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def gradients(layer: ProjectedLSTM, tokens: torch.Tensor, outputs: torch.Tensor) -> Tensors:
    """Return the gradients of a weighted sum of the outputs."""
    total = (outputs * numbers(*outputs.shape)).sum()
    return list(torch.autograd.grad(total, [tokens, *layer.parameters()]))


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("bound", [None, 0.4])
def test_outputs_state_and_gradients_are_those_of_the_network(
    bound: float | None, projected: bool
) -> None:
    """Sentences that begin within the rows are rows of their own in the network."""
    layer = lstm(bound, projected=projected)
    tokens = numbers(STEPS, ROWS, 4).requires_grad_()
    h, c = numbers(ROWS, 4).clamp(-1, 1), numbers(ROWS, 7 if projected else 4)
    keep = torch.ones(STEPS, ROWS, 1, dtype=torch.bool)
    keep[2, 0] = keep[0, 1] = keep[5, 1] = False  # row 2 begins with the given state

    found, *last = fused_loop(layer, tokens, keep, h, c, None)
    expected, ends = torch.zeros_like(found), []
    for row, starts in enumerate(([0, 2], [0, 5], [0])):
        for start, end in zip(starts, [*starts[1:], STEPS], strict=True):
            kept = float(keep[start, row])
            part = tokens[start:end, row]
            outputs, *state = layer(part, (1,) * (end - start), *(v[[row]] * kept for v in (h, c)))
            expected = expected.index_put(
                (torch.arange(start, end), torch.tensor(row)), outputs, accumulate=True
            )
        ends.append(state)
    every = zip(
        [found, *last, *gradients(layer, tokens, found)],
        [expected, *map(torch.cat, zip(*ends, strict=True)), *gradients(layer, tokens, expected)],
        strict=True,
    )
    for one, other in every:
        torch.testing.assert_close(one, other, rtol=0, atol=1e-11)
    if bound is not None:
        assert last[1].abs().max() == bound
        assert not projected or found.abs().max() == bound


def test_bfloat16_is_near_float32() -> None:
    layer = lstm(3.0).float()
    keep = torch.ones(STEPS, ROWS, 1, dtype=torch.bool)
    tokens, state = numbers(STEPS, ROWS, 4).float(), (torch.zeros(ROWS, 4), torch.zeros(ROWS, 7))
    exact, *_ = fused_loop(layer, tokens, keep, *state, None)
    with torch.autocast("cpu", torch.bfloat16):
        outputs, _, last = fused_loop(layer, tokens, keep, *state, None)
    assert outputs.dtype == torch.bfloat16 and last.dtype == torch.float32
    torch.testing.assert_close(outputs.float(), exact, rtol=0.1, atol=0.1)
    torch.autograd.backward(outputs.float().sum())
    assert all(p.grad is not None for p in layer.parameters())


def test_noise_is_on_what_the_next_step_reads_and_has_the_right_gradient() -> None:
    layer, tokens = lstm(), numbers(STEPS, ROWS, 4)
    keep = torch.ones(STEPS, ROWS, 1, dtype=torch.bool)
    keep[3, 1] = False
    state, noise = (torch.zeros(ROWS, 4).double(), torch.zeros(ROWS, 7).double()), numbers(6, 3, 4)

    def outputs(weight: torch.Tensor) -> torch.Tensor:
        layer.recurrent.weight.data = weight.detach()
        return fused_loop(layer, tokens, keep, *state, noise)[0]

    weight, along = layer.recurrent.weight.detach().clone(), numbers(28, 4)
    torch.autograd.backward(outputs(weight).square().sum())
    assert layer.recurrent.weight.grad is not None
    slope = float((layer.recurrent.weight.grad * along).sum())
    ends = [outputs(weight + step * along).square().sum().item() for step in (1e-6, -1e-6)]
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)
    # the first step reads the noise alone
    expected = outputs(weight)[0], layer(tokens[0], (ROWS,), noise[0], state[1])[0]
    torch.testing.assert_close(*expected)
