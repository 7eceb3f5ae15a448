"""One direction: dropout, residual, state between two parts of a text."""

import torch
from torch import Tensor

from elmo_model.network.bilm import BiLM
from elmo_model.network.config import LSTMConfig
from elmo_model.network.stack import Stack

CONFIG = LSTMConfig(2, 6, 4, 3.0, 3.0, True)


def tokens(count: int) -> Tensor:
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(0))


def random_stack() -> Stack:
    stack, generator = Stack(CONFIG).eval(), torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.normal_(0, 0.7, generator=generator)
    return stack


def test_a_text_in_two_parts_with_state_gives_the_vectors_of_the_whole() -> None:
    stack, words = random_stack(), tokens(12).reshape(6, 2, 4)
    h, c = torch.zeros(2, 2, 4), torch.zeros(2, 2, 6)
    whole, _, _ = stack(words.reshape(12, 4), [2] * 6, h, c)
    first, h, c = stack(words[:2].reshape(4, 4), [2] * 2, h, c)
    second, _, _ = stack(words[2:].reshape(8, 4), [2] * 4, h, c)
    for layer in range(2):
        torch.testing.assert_close(torch.cat((first[layer], second[layer])), whole[layer])


def test_dropout_falls_on_the_input_of_every_layer_and_the_residual_adds_what_is_left() -> None:
    network = BiLM(CONFIG, dropout=0.5)
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
