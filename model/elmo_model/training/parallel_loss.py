"""Two losses over one input at once, each forward and back on its own share of the cores."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from elmo_model.inference.parallel_directions import side_by_side

Run = Callable[[Tensor], tuple[Tensor, tuple[Tensor, ...]]]


def abreast(
    first: Run, second: Run, shared: Tensor, parameters: Sequence[Tensor]
) -> tuple[Tensor, tuple[tuple[Tensor, ...], tuple[Tensor, ...]]]:
    """Call both with `shared`; return their losses in one (2,) and what else each returned.

    Each run maps `shared` to its loss, a number, and tensors without a gradient. The loss may
    depend on `shared` and on `parameters`, on nothing else that needs a gradient. Nothing in
    either may be random: two threads draw in no order.
    """
    others: list[tuple[Tensor, ...]] = []
    losses: Tensor = _Abreast.apply(  # type: ignore[no-untyped-call]
        (first, second), others, shared, *parameters
    )
    return losses, (others[0], others[1])


class _Abreast(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        runs: tuple[Run, Run],
        others: list[tuple[Tensor, ...]],
        shared: Tensor,
        *parameters: Tensor,
    ) -> Tensor:
        device = shared.device.type
        precision = torch.get_autocast_dtype(device)
        mixed = torch.is_autocast_enabled(device)

        def ahead(run: Run) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
            own = shared.detach().requires_grad_()
            # these settings belong to a thread
            with torch.enable_grad(), torch.autocast(device, precision, enabled=mixed):
                return own, *run(own)

        done = side_by_side(lambda: ahead(runs[0]), lambda: ahead(runs[1]))
        others.extend(other for _, _, other in done)
        ctx.graphs = [(own, loss) for own, loss, _ in done]
        ctx.parameters = parameters
        return torch.stack([loss.detach() for _, loss in ctx.graphs])

    @staticmethod
    def backward(ctx: Any, d_losses: Tensor) -> tuple[Tensor | None, ...]:
        def back(number: int) -> tuple[Tensor | None, ...]:
            own, loss = ctx.graphs[number]
            return torch.autograd.grad(
                loss, (own, *ctx.parameters), d_losses[number], allow_unused=True
            )

        both = side_by_side(lambda: back(0), lambda: back(1))
        del ctx.graphs
        return None, None, *map(_sum, *both)


def _sum(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return second if first is None else first
    return first.add_(second)
