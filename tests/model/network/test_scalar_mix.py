"""The scalar mix: one row of weights a token, statistics of one sentence; the alignment."""

import numpy as np
import pytest
import torch

from elmo_model.network.scalar_mix import ScalarMix, layer_norm, mix, normalise
from tests.support import reference


def layers(tokens: int = 5) -> torch.Tensor:
    return torch.randn(3, tokens, 4, generator=torch.Generator().manual_seed(tokens))


@pytest.mark.parametrize("normed", [False, True])
def test_a_mix_is_the_reference_of_the_paper(normed: bool) -> None:
    raw, gamma = [0.3, -1.0, 2.0], 0.7
    x = layers()
    ours = mix(layer_norm(x) if normed else x, normalise(raw), gamma)
    truth = reference.scalar_mix(x.double().numpy(), raw, gamma, normed)
    np.testing.assert_allclose(ours.numpy(), truth, atol=1e-6)


def test_tokens_of_different_tasks_share_a_mix() -> None:
    x = layers()
    one, other = normalise([1.0, 2.0, 3.0]), normalise([0.0, 5.0, 0.0])
    rows = torch.stack((one, one, other, other, other), dim=1)
    gammas = torch.tensor([1.0, 1.0, 2.0, 2.0, 2.0])
    mixed = mix(x, rows, gammas)
    assert torch.equal(mixed[:2], mix(x, one, 1.0)[:2])
    assert torch.equal(mixed[2:], mix(x, other, 2.0)[2:])


def test_one_token_and_none_are_mixed() -> None:
    weights = normalise(torch.zeros(3, 1))
    assert mix(layers(1), weights, torch.ones(1)).shape == (1, 4)
    assert mix(layers(1)[:, :0], normalise([0.0, 0.0, 0.0]), 1.0).shape == (0, 4)


def test_layer_norm_has_one_mean_and_one_variance_a_layer() -> None:
    normed = layer_norm(layers(7) * 5 + 3)
    assert normed.mean(dim=(1, 2)).abs().max() < 1e-6
    assert (normed.var(dim=(1, 2), unbiased=False) - 1).abs().max() < 1e-5
    assert normed.mean(dim=2).abs().max() > 0.01  # not a token's own


def test_layer_norm_of_equal_numbers_is_finite() -> None:
    assert torch.equal(layer_norm(torch.ones(3, 2, 4)), torch.zeros(3, 2, 4))


def test_a_trainable_mix_starts_even_and_learns() -> None:
    module = ScalarMix(3)
    torch.testing.assert_close(module(layers()), layers().mean(dim=0))
    torch.autograd.backward(module(layers()).sum())
    assert all(parameter.grad is not None for parameter in module.parameters())
