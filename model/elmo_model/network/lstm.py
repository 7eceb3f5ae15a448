"""One layer of one direction: an LSTM with a projected output."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from elmo_model.network.config import LSTMConfig

# Positions whose input products are computed at once. A larger number costs memory, 4D numbers a
# position, and makes no larger product any faster (benchmarks/network.py).
_BLOCK = 1024


class ProjectedLSTM(nn.Module):
    """An LSTM of `cell` units whose output is projected, with clips (Sak et al. 2014).

    It has no peepholes. The state is an argument and a result and is never kept in the module.

    The gates are stored as in the files of bilm-tf: input, candidate, forget, output. The forget
    gate's `forget_bias` (1 in bilm-tf) is not in those files; it is added at run time. Weights of
    ELMoForManyLangs have it in the bias already, so their configuration sets it to 0.
    """

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__()
        width, gates = config.projection, 4 * config.cell
        self.input = nn.Linear(width, gates, bias=False)
        self.recurrent = nn.Linear(width, gates, bias=False)
        self.bias = nn.Parameter(torch.empty(gates))
        self.projection: nn.Linear | nn.Identity = (
            nn.Linear(config.cell, width, bias=False) if config.projected else nn.Identity()
        )
        self.forget_bias = config.forget_bias
        self.cell_clip = config.cell_clip
        # TensorFlow clips an output only where it projects it.
        self.projection_clip = config.projection_clip if config.projected else None

    def forward(
        self, inputs: Tensor, sizes: Sequence[int], h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Map packed (positions, P) to packed (positions, P) and the state after each row's end.

        `sizes` are the rows of each time step and never rise: the longest sentence is row 0.
        h (rows, P) and c (rows, D) are the state before the first step and, as results, after each
        row's own last step.
        """
        bias = self.run_time_bias()
        outputs, ended = [], []
        for start, steps in blocks(sizes, _BLOCK):
            block = inputs[start : start + sum(steps)]
            gates = nn.functional.linear(block, self.input.weight, bias)  # (positions, 4D)
            for rows, step_gates in zip(steps, torch.split(gates, list(steps)), strict=True):
                if rows < len(h):  # the shortest sentences have ended
                    ended.append((h[rows:], c[rows:]))
                    h, c = h[:rows], c[:rows]
                h, c = self._step(step_gates, h, c)  # (rows, P), (rows, D)
                outputs.append(h)
        ended.append((h, c))
        last_h, last_c = zip(*reversed(ended), strict=True)
        packed = torch.cat(outputs) if outputs else inputs
        return packed, torch.cat(last_h), torch.cat(last_c)

    def run_time_bias(self) -> Tensor:
        """Return the bias (4D,) with `forget_bias` added to the forget gate."""
        i, j, f, o = self.bias.chunk(4)
        return torch.cat((i, j, f + self.forget_bias, o))

    def _step(self, gates: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Map input products (rows, 4D), h (rows, P) and c (rows, D) to the next h and c."""
        gates = torch.addmm(gates, h, self.recurrent.weight.T)  # (rows, 4D)
        i, j, f, o = gates.chunk(4, dim=1)  # (rows, D) each
        c = clip(torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(j), self.cell_clip)
        h = clip(self.projection(torch.sigmoid(o) * torch.tanh(c)), self.projection_clip)
        return h, c


def clip(values: Tensor, bound: float | None) -> Tensor:
    """Clamp values to [-bound, bound]; without a bound return them unchanged.

    The gradient passes where |value| <= bound, as that of TensorFlow's clip_by_value.
    """
    return values if bound is None else values.clamp(-bound, bound)


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
