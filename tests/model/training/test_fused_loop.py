"""The fused loop has the outputs and gradients of the network's own loop."""

import pytest
import torch

from elmo_model.network.config import CharCNNConfig, ElmoConfig, LSTMConfig
from elmo_model.network.elmo import ElmoNetwork, Origin
from elmo_model.network.initialise import initialise
from elmo_model.text.alphabets import Utf8Alphabet
from elmo_model.training.fused_loop import FusedLSTM, use_fused_loop

EVEN, UNEVEN = (3,) * 6, (4, 4, 3, 1, 1)


def elmo(fused: bool, bound: float | None = None, *, projected: bool = True) -> ElmoNetwork:
    cell, width = (7, 4) if projected else (4, 4)
    made = ElmoNetwork(
        ElmoConfig(
            CharCNNConfig(262, 3, ((1, 3), (2, 3)), 1, "relu", 50),
            LSTMConfig(2, cell, width, bound, bound, skip=True, projected=projected),
        ),
        Utf8Alphabet(),
        Origin("", "", ""),
    )
    initialise(made, torch.Generator().manual_seed(3)).double()
    for parameter in made.bilm.parameters():
        parameter.data *= 3  # so that the clips have an effect
    if fused:
        use_fused_loop(made.bilm)
    return made


def outcome(made: ElmoNetwork, sizes: tuple[int, ...]) -> list[torch.Tensor]:
    """Return outputs, state and all gradients over two batches with state carried."""
    generator = torch.Generator().manual_seed(0)
    stack, config = made.bilm.forward_stack, made.config.lstm
    h = torch.zeros(config.layers, sizes[0], config.projection, dtype=torch.float64)
    c = torch.zeros(config.layers, sizes[0], config.cell, dtype=torch.float64)
    results = []
    for _ in range(2):
        tokens = torch.randn(
            sum(sizes), config.projection, dtype=torch.float64, generator=generator
        ).requires_grad_()
        layers, h, c = stack(tokens, sizes, h.detach(), c.detach())
        weights = torch.randn(layers[-1].shape, dtype=torch.float64, generator=generator)
        (layers[-1] * weights).sum().backward()
        assert tokens.grad is not None
        results += [*(layer.detach() for layer in layers), h.detach(), c.detach(), tokens.grad]
    return results + [p.grad for p in stack.parameters() if p.grad is not None]


@pytest.mark.parametrize("sizes", [EVEN, UNEVEN])
@pytest.mark.parametrize("bound", [None, 0.4])
def test_outputs_state_and_gradients_are_those_of_the_network(
    bound: float | None, sizes: tuple[int, ...]
) -> None:
    plain, full = elmo(False, bound), elmo(True, bound)
    assert isinstance(full.bilm.forward_stack.layers[0], FusedLSTM)
    expected, found = outcome(plain, sizes), outcome(full, sizes)
    assert len(expected) == len(found) == 2 * 5 + 8
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    if bound is not None:
        assert expected[2].abs().max() == bound and expected[3].abs().max() == bound


def test_an_lstm_without_projection_keeps_its_loop() -> None:
    made = elmo(True, projected=False)
    assert not any(isinstance(layer, FusedLSTM) for layer in made.bilm.forward_stack.layers)


def test_bfloat16_is_near_float32() -> None:
    plain, full = elmo(False, 3.0).float(), elmo(True, 3.0).float()
    tokens = torch.randn(sum(UNEVEN), 4, generator=torch.Generator().manual_seed(0))
    h, c = torch.zeros(2, 4, 4), torch.zeros(2, 4, 7)
    exact, *_ = plain.bilm.forward_stack(tokens, UNEVEN, h, c)
    with torch.autocast("cpu", torch.bfloat16):
        layers, _, last = full.bilm.forward_stack(tokens, UNEVEN, h, c)
    assert layers[0].dtype == torch.bfloat16 and last.dtype == torch.float32
    torch.testing.assert_close(layers[0].float(), exact[0], rtol=0.1, atol=0.05)
    layers[-1].float().sum().backward()
    assert all(p.grad is not None for p in full.bilm.forward_stack.parameters())


def test_noise_is_drawn_from_the_seed_and_has_the_right_gradient() -> None:
    """The derivative along a direction is that of finite differences, with the same noise."""
    made = elmo(False)
    use_fused_loop(made.bilm, noise=0.5)
    layer = made.bilm.forward_stack.layers[0]
    assert isinstance(layer, FusedLSTM)
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randn(sum(UNEVEN), 4, dtype=torch.float64, generator=generator)
    state = tokens.new_zeros(UNEVEN[0], 4), tokens.new_zeros(UNEVEN[0], 7)

    def total(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        outputs: torch.Tensor = layer(tokens, UNEVEN, *state)[0]
        return outputs.square().sum()

    assert total(1) == total(1) != total(2)
    weight = layer.recurrent.weight
    (gradient,) = torch.autograd.grad(total(1), weight)
    along = torch.randn(weight.shape, dtype=torch.float64, generator=generator)
    ends = []
    for step in (1e-6, -1e-6):
        weight.data += step * along
        ends.append(total(1).item())
        weight.data -= step * along
    assert float((gradient * along).sum()) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)
    with torch.no_grad():  # as it is measured and served
        assert total(1) == total(2)
