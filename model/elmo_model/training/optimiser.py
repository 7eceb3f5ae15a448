"""The optimisers of the recipes, and clipping of the gradient by its norm."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim import Adagrad, AdamW, Optimizer

from elmo_model.training.recipe import Recipe


def optimiser_for(model: nn.Module, recipe: Recipe, device: torch.device) -> Optimizer:
    """Return the optimiser of a recipe over a model's parameters."""
    parameters = list(model.parameters())
    if recipe.optimiser == "adagrad":
        # as in TensorFlow: the sum of squares starts at 1, and no epsilon is in the denominator
        return Adagrad(parameters, recipe.learning_rate, initial_accumulator_value=1.0, eps=0.0)
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": recipe.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return AdamW(groups, recipe.learning_rate, betas=(0.9, 0.98), fused=True)


@torch.no_grad()
def clip_by_norm(parameters: Iterable[nn.Parameter], bound: float) -> Tensor:
    """Scale all gradients by bound / max(norm, bound); return their common norm before that."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    torch._foreach_mul_(gradients, bound / norm.clamp(min=bound))
    return norm
