"""The loop over time that every LSTM of the network runs."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

InputGates = Callable[[Tensor], Tensor]
"""Map inputs (positions, P) to their share of the gates (positions, 4D)."""
Step = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""Map gates (rows, 4D), h (rows, P) and c (rows, D) of one time step to the next h and c."""


def run(
    inputs: Tensor,
    sizes: Sequence[int],
    h: Tensor,
    c: Tensor,
    *,
    input_gates: InputGates,
    step: Step,
    block: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Map packed (positions, P) to packed (positions, P) and the state after each row's end.

    `sizes` are the rows of each time step and never rise: the longest sentence is row 0. h (rows,
    P) and c (rows, D) are the state before the first step; the returned h and c hold each row's
    state after its own last step. `input_gates` is called with about `block` positions at once,
    which bounds the memory of the gates.
    """
    outputs, ended = [], []
    for start, steps in blocks(sizes, block):
        gates = input_gates(inputs[start : start + sum(steps)])  # (positions of the block, 4D)
        for rows, own in zip(steps, torch.split(gates, list(steps)), strict=True):  # (rows, 4D)
            if rows < len(h):  # the shortest sentences have ended
                ended.append((h[rows:], c[rows:]))
                h, c = h[:rows], c[:rows]
            h, c = step(own, h, c)  # (rows, P), (rows, D)
            outputs.append(h)
    ended.append((h, c))
    last_h, last_c = zip(*reversed(ended), strict=True)
    packed = torch.cat(outputs) if outputs else inputs
    return packed, torch.cat(last_h), torch.cat(last_c)


def blocks(sizes: Sequence[int], limit: int) -> Iterator[tuple[int, Sequence[int]]]:
    """Cut time steps into blocks of at most `limit` positions, but of at least one step.

    Yields the first position of each block and the rows of each of its steps.
    """
    start, first, positions = 0, 0, 0
    for step, rows in enumerate(sizes):
        if positions and positions + rows > limit:
            yield start, sizes[first:step]
            start, first, positions = start + positions, step, 0
        positions += rows
    if positions:
        yield start, sizes[first:]
