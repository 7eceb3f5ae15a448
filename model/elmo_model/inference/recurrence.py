"""The loop over time of inference: as `layers.recurrence`, with row counts in buckets."""

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn import functional

from elmo_model.inference.row_buckets import RoundUp
from elmo_model.network.recurrence import InputGates, Step, blocks


def run(
    inputs: Tensor,
    sizes: Sequence[int],
    h: Tensor,
    c: Tensor,
    *,
    input_gates: InputGates,
    step: Step,
    block: int,
    round_up: RoundUp,
) -> tuple[Tensor, Tensor, Tensor]:
    """Map packed (positions, P) to packed (positions, P) and the state after each row's end.

    As `layers.recurrence.run`, but `input_gates` and `step` get `round_up` of their rows. The
    surplus rows hold the inputs of later steps or zeros, and their results are discarded.
    """
    outputs, ended = [], []
    live = len(h)
    h, c = _rows(h, 0, round_up(live)), _rows(c, 0, round_up(live))
    for start, steps in blocks(sizes, block):
        gates = input_gates(_rows(inputs, start, round_up(_extent(steps, round_up))))
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


def _extent(steps: Sequence[int], round_up: RoundUp) -> int:
    """Return the number of positions that the steps of a block read, surplus rows included."""
    starts = accumulate(steps, initial=0)
    return max(start + round_up(rows) for start, rows in zip(starts, steps, strict=False))


def _rows(values: Tensor, start: int, count: int) -> Tensor:
    """Return `count` rows from `start`, filled up with zeros."""
    found = values[start : start + count]
    return found if len(found) == count else functional.pad(found, (0, 0, 0, count - len(found)))
