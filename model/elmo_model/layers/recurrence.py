"""The loop over time that every LSTM here runs, whatever its products are."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn import functional

from elmo_model.inference.row_buckets import RoundUp, as_they_are

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
    round_up: RoundUp = as_they_are,
) -> tuple[Tensor, Tensor, Tensor]:
    """Map packed (positions, P) to packed (positions, P) and the state after each row's end.

    `sizes` are the rows of each time step, never rising; h (rows, P) and c (rows, D) are the state
    before the first step and, as results, after each row's own last step. `input_gates` maps inputs
    to their share of the gates, about `block` positions at once; `step` maps that share of one time
    step, h and c to the next h and c. Both are given `round_up` of their rows: those beyond a
    step's own hold numbers of the steps after it, and what comes of them is not used.
    """
    outputs, ended = [], []
    live = len(h)
    h, c = _of_rows(h, 0, round_up(live)), _of_rows(c, 0, round_up(live))
    for start, steps in blocks(sizes, block):
        gates = input_gates(_of_rows(inputs, start, round_up(_reach(steps, round_up))))
        position = 0
        for rows in steps:
            if rows < live:
                ended.append((h[rows:live], c[rows:live].clone()))  # a view would keep its gates
                live = rows
            used = round_up(rows)
            h, c = step(gates[position : position + used], h[:used], c[:used])
            outputs.append(h[:rows])
            position += rows
    ended.append((h[:live], c[:live]))
    last_h, last_c = zip(*reversed(ended), strict=True)
    packed = torch.cat(outputs) if outputs else inputs
    return packed, torch.cat(last_h), torch.cat(last_c)


def _reach(steps: Sequence[int], round_up: RoundUp) -> int:
    """Return the positions that the steps of a block touch."""
    starts = accumulate(steps, initial=0)
    return max(start + round_up(rows) for start, rows in zip(starts, steps, strict=False))


def _of_rows(values: Tensor, start: int, count: int) -> Tensor:
    """Return `count` rows from `start`, with zeros where there are no more."""
    found = values[start : start + count]
    return found if len(found) == count else functional.pad(found, (0, 0, 0, count - len(found)))


def blocks(sizes: Sequence[int], limit: int) -> Iterator[tuple[int, Sequence[int]]]:
    """Cut steps into blocks of about `limit` positions: (first position, rows of each step)."""
    start, first, positions = 0, 0, 0
    for step, rows in enumerate(sizes):
        if positions and positions + rows > limit:
            yield start, sizes[first:step]
            start, first, positions = start + positions, step, 0
        positions += rows
    if positions:
        yield start, sizes[first:]
