"""The biLM: each direction sees its side alone, rows that have ended take part in no step."""

import torch
from torch import Tensor

from elmo_model.network.bilm import BiLM
from elmo_model.network.config import LSTMConfig
from elmo_model.network.state import State


def config(**changes: object) -> LSTMConfig:
    values: dict[str, object] = {
        "layers": 2,
        "cell": 6,
        "projection": 4,
        "cell_clip": 3.0,
        "projection_clip": 3.0,
        "skip": True,
    }
    return LSTMConfig(**{**values, **changes})  # type: ignore[arg-type]


def bilm(**changes: object) -> BiLM:
    network = BiLM(config(**changes))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.7, generator=generator)
    return network.eval()


def tokens(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))


def test_gradients_agree_with_finite_differences_through_state_and_lengths() -> None:
    network = bilm(cell_clip=0.5, projection_clip=0.4).double()

    def answer(words: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        layers, after = network(words, [1, 3], State(h, c))
        return layers, after.h, after.c

    generator = torch.Generator().manual_seed(1)
    shapes = [(4, 4), (2, 2, 8), (2, 2, 12)]
    inputs = [torch.randn(s, generator=generator).double().requires_grad_() for s in shapes]
    assert torch.autograd.gradcheck(answer, inputs, fast_mode=True)


def test_dropout_falls_on_the_input_of_every_layer_and_the_residual_adds_what_is_left() -> None:
    network = BiLM(config(), dropout=0.5)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        for stack in (network.forward_stack, network.backward_stack):
            stack.get_parameter("layers.0.bias").fill_(1.0)  # layer 1 gives numbers, layer 2 zeros
            stack.get_parameter("layers.0.projection.weight").fill_(0.5)
    torch.manual_seed(0)
    layers, _ = network.train()(tokens(6), [6])
    kept = layers[2] / layers[1]
    assert set(kept.round(decimals=4).flatten().tolist()) == {0.0, 2.0}
