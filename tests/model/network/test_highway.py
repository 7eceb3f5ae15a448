"""The highway's gate: the one called carry opens the transformed branch."""

import torch

from elmo_model.network.char_cnn import Highway


def test_the_gate_called_carry_multiplies_the_transformed_branch() -> None:
    highway = Highway(3)
    inputs = torch.tensor([[1.0, -2.0, 3.0]])
    with torch.no_grad():
        highway.carry.weight.zero_()
        highway.transform.weight.zero_()
        highway.transform.bias.copy_(torch.tensor([5.0, 6.0, -7.0]))
        highway.carry.bias.fill_(100.0)
        assert torch.equal(highway(inputs), torch.tensor([[5.0, 6.0, 0.0]]))
        highway.carry.bias.fill_(-100.0)
        assert torch.equal(highway(inputs), inputs)
