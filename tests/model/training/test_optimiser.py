"""The gradient is clipped by its norm over all parameters."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.optim import Adagrad, AdamW

from elmo_model.training.optimiser import clip_by_norm, optimiser_for
from elmo_model.training.recipe import RECIPES


@pytest.mark.parametrize(("bound", "scale"), [(10.0, 1.0), (1.0, 0.2)])
def test_gradients_are_scaled_to_the_bound(bound: float, scale: float) -> None:
    one, other = (nn.Parameter(torch.zeros(1)) for _ in range(2))
    one.grad, other.grad = torch.tensor([3.0]), torch.tensor([-4.0])
    assert clip_by_norm([one, other], bound).item() == pytest.approx(5.0)
    assert (one.grad.item(), other.grad.item()) == pytest.approx((3 * scale, -4 * scale))


def test_weight_decay_is_on_matrices_alone() -> None:
    recipe = replace(RECIPES["modern"], weight_decay=0.5)
    optimiser = optimiser_for(nn.Linear(2, 2), recipe, torch.device("cpu"))
    assert isinstance(optimiser, AdamW)
    groups = [(g["weight_decay"], [p.dim() for p in g["params"]]) for g in optimiser.param_groups]
    assert groups == [(0.5, [2]), (0.0, [1])]
    reference = optimiser_for(nn.Linear(2, 2), RECIPES["reference"], torch.device("cpu"))
    assert isinstance(reference, Adagrad)
