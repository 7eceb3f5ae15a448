"""The model that is fitted: mixture, pairs, loss."""

import pytest
import torch
from torch.nn import functional

from elmo_model.network.scalar_mix import mix, normalise
from elmo_model.tasks.fitter import MixtureHead, initial_gamma, joined


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def test_logits_are_the_linear_map_of_the_mixture() -> None:
    head = MixtureHead(3, 4, 2, gamma=1.5)
    torch.nn.init.normal_(head.linear.weight)
    torch.nn.init.normal_(head.mix.weights)
    layers = torch.randn(3, 5, 1, 4)

    found = head(layers)

    weights = normalise(head.mix.weights.tolist())
    mixed = torch.stack([mix(layers[:, row], weights, 1.5)[0] for row in range(5)])
    torch.testing.assert_close(found, head.linear(mixed), rtol=0, atol=1e-5)


def test_a_new_head_predicts_nothing_and_averages_the_layers() -> None:
    head = MixtureHead(3, 4, 2, gamma=0.25)

    assert head(torch.randn(3, 5, 1, 4)).abs().max() == 0
    assert normalise(head.mix.weights.tolist()) == pytest.approx((1 / 3,) * 3)
    assert head.mix.gamma.item() == 0.25


def test_a_pair_becomes_both_vectors_their_distance_and_their_product() -> None:
    u, v = torch.tensor([1.0, -2.0]), torch.tensor([3.0, 5.0])

    (found,) = joined(torch.stack((u, v))[None])

    assert found.tolist() == [1, -2, 3, 5, 2, 7, 3, -10]
    assert MixtureHead(3, 4, 2, places=2)(torch.randn(3, 5, 2, 4)).shape == (5, 2)


def test_dropout_acts_on_the_mixed_vectors_in_training_alone() -> None:
    head = MixtureHead(1, 200, 1, dropout=0.5)
    torch.nn.init.ones_(head.linear.weight)
    layers = torch.ones(1, 1, 1, 200)

    assert head.eval()(layers).item() == 200
    assert head.train()(layers).item() != 200


def test_the_loss_is_cross_entropy_and_the_squared_norm_of_the_weights() -> None:
    head = MixtureHead(3, 4, 2)
    with torch.no_grad():
        head.mix.weights.copy_(torch.tensor([1.0, -2.0, 0.5]))
    layers, labels = torch.randn(3, 5, 1, 4), torch.tensor([0, 1, 1, 0, 1])

    found = head.loss(layers, labels, 0.1)

    expected = functional.cross_entropy(head(layers), labels) + 0.1 * (1 + 4 + 0.25)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("deviation", "gamma"),
    [(0.5, 2.0), (0.0, 1.0), (float("nan"), 1.0), (float("inf"), 1.0)],
)
def test_the_initial_scale_gives_vectors_a_deviation_of_one(deviation: float, gamma: float) -> None:
    assert initial_gamma(deviation) == gamma


def test_static_word_vectors_stand_behind_the_mixture() -> None:
    head = MixtureHead(3, 4, 2, static=3)
    torch.nn.init.normal_(head.linear.weight)
    layers, static = torch.randn(3, 5, 1, 4), torch.randn(5, 1, 3)

    found = head(layers, static)

    both = torch.cat((layers.mean(0)[:, 0], static[:, 0]), dim=1)
    torch.testing.assert_close(found, head.linear(both), rtol=0, atol=1e-5)
    assert MixtureHead(3, 4, 2, places=2, static=3).linear.in_features == 4 * 7
