"""The loop over time that every LSTM here runs, whatever its products are."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

InputGates = Callable[[Tensor], Tensor]
Step = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


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

    `sizes` are the rows of each time step, never rising; h (rows, P) and c (rows, D) are the state
    before the first step and, as results, after each row's own last step. `input_gates` maps inputs
    to their share of the gates, about `block` positions at once; `step` maps that share of one time
    step, h and c to the next h and c.
    """
    outputs, ended = [], []
    for start, steps in _blocks(sizes, block):
        gates = input_gates(inputs[start : start + sum(steps)])
        position = 0
        for rows in steps:
            if rows < len(h):
                ended.append((h[rows:], c[rows:]))
                h, c = h[:rows], c[:rows]
            h, c = step(gates[position : position + rows], h, c)
            outputs.append(h)
            position += rows
    ended.append((h, c))
    last_h, last_c = zip(*reversed(ended), strict=True)
    packed = torch.cat(outputs) if outputs else inputs
    return packed, torch.cat(last_h), torch.cat(last_c)


def _blocks(sizes: Sequence[int], limit: int) -> Iterator[tuple[int, Sequence[int]]]:
    """Cut steps into blocks of about `limit` positions: (first position, rows of each step)."""
    start, first, positions = 0, 0, 0
    for step, rows in enumerate(sizes):
        if positions and positions + rows > limit:
            yield start, sizes[first:step]
            start, first, positions = start + positions, step, 0
        positions += rows
    if positions:
        yield start, sizes[first:]
