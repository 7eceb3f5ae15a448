"""Two graphs of autograd at once, forward and backward pass on a share of the cores each."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor

from elmo_model.threads import ParallelDirections

Others = TypeVar("Others", bound=tuple[Tensor, ...])
Graph = Callable[..., tuple[Tensor, Others]]
"""Map inputs to one tensor with a gradient, and to others without one."""


def parallel_graphs(
    first: Graph[Others],
    second: Graph[Others],
    inputs: Sequence[Tensor],
    parameters: Sequence[Tensor],
) -> tuple[tuple[Tensor, Tensor], tuple[Others, Others]]:
    """Call both functions with `inputs`; return the tensor of each, and the others of each.

    The tensor may depend on `inputs` and `parameters`, and on nothing else that needs a gradient.
    The functions must not draw random numbers: two threads draw in no fixed order.
    """
    others: list[Others] = []
    outputs: tuple[Tensor, Tensor] = _ParallelGraphs.apply(  # type: ignore[no-untyped-call]
        (first, second), others, len(inputs), *inputs, *parameters
    )
    return outputs, (others[0], others[1])


@cache
def threads_of(count: int) -> ParallelDirections:
    """Return the two threads that share `count` torch threads, kept as long as the process.

    They wait for each other once a call. The threads of a single product wait at its end each time:
    beside another program on one of two cores, training is several times slower that way.
    """
    return ParallelDirections(count)


class _ParallelGraphs(torch.autograd.Function):
    """Runs two graphs of autograd in two threads: its own engine would walk one after the other."""

    @staticmethod
    def forward(
        ctx: Any,
        functions: tuple[Graph[Others], Graph[Others]],
        others: list[Others],
        count: int,
        *tensors: Tensor,
    ) -> tuple[Tensor, Tensor]:
        device = tensors[0].device.type
        precision = torch.get_autocast_dtype(device)
        mixed = torch.is_autocast_enabled(device)

        def run(function: Graph[Others]) -> tuple[list[Tensor], Tensor, Others]:
            own = [values.detach().requires_grad_() for values in tensors[:count]]
            # these settings belong to a thread
            with torch.enable_grad(), torch.autocast(device, precision, enabled=mixed):
                return own, *function(*own)

        done = threads_of(torch.get_num_threads()).run(
            lambda: run(functions[0]), lambda: run(functions[1])
        )
        others.extend(other for _, _, other in done)
        ctx.graphs = [(own, output) for own, output, _ in done]
        ctx.parameters = tensors[count:]
        (_, first), (_, second) = ctx.graphs
        return first.detach(), second.detach()

    @staticmethod
    def backward(ctx: Any, *d_outputs: Tensor) -> tuple[Tensor | None, ...]:
        def run(number: int) -> tuple[Tensor | None, ...]:
            own, output = ctx.graphs[number]
            return torch.autograd.grad(
                output, (*own, *ctx.parameters), d_outputs[number], allow_unused=True
            )

        both = threads_of(torch.get_num_threads()).run(lambda: run(0), lambda: run(1))
        del ctx.graphs
        return None, None, None, *map(_sum, *both)


def _sum(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return second if first is None else first
    return first.add_(second)
