"""The losses of both directions at once, forward and backward pass on a share of the cores each."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from elmo_model.inference.parallel_directions import ParallelDirections

Loss = Callable[[Tensor], tuple[Tensor, tuple[Tensor, ...]]]


def parallel_loss(
    first: Loss, second: Loss, shared: Tensor, parameters: Sequence[Tensor]
) -> tuple[Tensor, tuple[tuple[Tensor, ...], tuple[Tensor, ...]]]:
    """Call both functions with `shared`; return their losses as (2,) and their other results.

    Each function maps `shared` to a loss, which is one number, and tensors without a gradient. The
    loss may depend on `shared` and `parameters`, and on nothing else that needs a gradient. The
    functions must not draw random numbers: two threads draw in no fixed order.
    """
    others: list[tuple[Tensor, ...]] = []
    losses: Tensor = _ParallelLoss.apply(  # type: ignore[no-untyped-call]
        (first, second), others, shared, *parameters
    )
    return losses, (others[0], others[1])


class _ParallelLoss(torch.autograd.Function):
    """Runs two graphs of autograd in two threads: its own engine would walk one after the other."""

    @staticmethod
    def forward(
        ctx: Any,
        functions: tuple[Loss, Loss],
        others: list[tuple[Tensor, ...]],
        shared: Tensor,
        *parameters: Tensor,
    ) -> Tensor:
        device = shared.device.type
        precision = torch.get_autocast_dtype(device)
        mixed = torch.is_autocast_enabled(device)

        def run(function: Loss) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
            own = shared.detach().requires_grad_()
            # these settings belong to a thread
            with torch.enable_grad(), torch.autocast(device, precision, enabled=mixed):
                return own, *function(own)

        done = _threads(torch.get_num_threads()).run(
            lambda: run(functions[0]), lambda: run(functions[1])
        )
        others.extend(other for _, _, other in done)
        ctx.graphs = [(own, loss) for own, loss, _ in done]
        ctx.parameters = parameters
        return torch.stack([loss.detach() for _, loss in ctx.graphs])

    @staticmethod
    def backward(ctx: Any, d_losses: Tensor) -> tuple[Tensor | None, ...]:
        def run(number: int) -> tuple[Tensor | None, ...]:
            own, loss = ctx.graphs[number]
            return torch.autograd.grad(
                loss, (own, *ctx.parameters), d_losses[number], allow_unused=True
            )

        both = _threads(torch.get_num_threads()).run(lambda: run(0), lambda: run(1))
        del ctx.graphs
        return None, None, *map(_sum, *both)


def _sum(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return second if first is None else first
    return first.add_(second)


@cache
def _threads(count: int) -> ParallelDirections:
    """Return the threads of both directions, which live as long as the training process."""
    return ParallelDirections(count)
