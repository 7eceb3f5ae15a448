"""Graphs computed in parallel have the numbers and gradients of graphs in sequence."""

import pytest
import torch
from torch import Tensor

from elmo_model.training.parallel_graphs import parallel_graphs


def losses_of(*, at_once: bool, threads: int) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Return losses, other results, and the gradients of input and parameters."""
    generator = torch.Generator().manual_seed(0)
    shared, left, right, both = (
        torch.randn(6, 6, dtype=torch.float64, generator=generator).requires_grad_()
        for _ in range(4)
    )

    def run(own: Tensor, inputs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        top = torch.tanh(inputs @ own) @ both
        return top.square().sum(), (top.detach(),)

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        if at_once:
            results, others = parallel_graphs(
                lambda inputs: run(left, inputs),
                lambda inputs: run(right, inputs),
                [shared],
                [left, right, both],
            )
            losses = torch.stack(results)
        else:
            pairs = [run(own, shared) for own in (left, right)]
            losses = torch.stack([loss for loss, _ in pairs])
            others = (pairs[0][1], pairs[1][1])
        torch.autograd.backward((losses * torch.tensor([2.0, 3.0])).sum())
    finally:
        torch.set_num_threads(before)
    gradients = [leaf.grad for leaf in (shared, left, right, both) if leaf.grad is not None]
    return losses.detach(), [*others[0], *others[1]], gradients


@pytest.mark.parametrize("threads", [1, 2])
def test_losses_and_gradients_are_those_of_a_sequence(threads: int) -> None:
    expected, others, gradients = losses_of(at_once=False, threads=1)
    found, others_found, gradients_found = losses_of(at_once=True, threads=threads)
    torch.testing.assert_close(found, expected)
    assert len(gradients) == len(gradients_found) == 4
    for one, other in zip([*others, *gradients], [*others_found, *gradients_found], strict=True):
        torch.testing.assert_close(one, other)


def test_graphs_without_an_input_may_use_parameters_of_their_own() -> None:
    left, right, idle = (torch.ones(3, requires_grad=True) for _ in range(3))
    outputs, others = parallel_graphs(
        lambda: (left * 2, ()), lambda: (right * 3, (torch.ones(1),)), [], [left, right, idle]
    )
    torch.autograd.backward(torch.cat(outputs).sum())
    assert left.grad is not None and left.grad.tolist() == [2.0] * 3
    assert right.grad is not None and right.grad.tolist() == [3.0] * 3
    assert idle.grad is None
    assert [len(other) for other in others] == [0, 1]
