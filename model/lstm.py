"""One layer of one direction: an LSTM with a projected output."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from model.config import LSTMConfig
from model.products import AnyProduct, Precision, Product, prepared

# Packed positions whose input products are made at once: large enough to be one big product,
# small enough that the gates (4D numbers each) are still near when the time loop reads them.
_BLOCK = 1024


class ProjectedLSTM(nn.Module):
    """An LSTM of `cell` units whose output is projected, with clips (Sak et al. 2014).

    No peepholes. Gates are stored as in the files of bilm-tf: input, candidate, forget, output,
    without the + `forget_bias` that the forget gate gets at run time. The state is an argument and
    a result, never kept here.
    """

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__()
        width, gates = config.projection, 4 * config.cell
        self.input: AnyProduct = Product(width, gates)
        self.recurrent: AnyProduct = Product(width, gates)
        self.bias = nn.Parameter(torch.empty(gates))
        self.projection: AnyProduct | nn.Identity = (
            Product(config.cell, width) if config.projected else nn.Identity()
        )
        self.forget_bias = config.forget_bias
        self.cell_clip = config.cell_clip
        # TensorFlow clips an output only where it projects it.
        self.projection_clip = config.projection_clip if config.projected else None

    def forward(
        self, inputs: Tensor, sizes: Sequence[int], h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Map packed (positions, P) to packed (positions, P) and the state after each row's end.

        `sizes` are the rows of each time step, never rising; h (rows, P) and c (rows, D) are the
        state before the first step and, as results, after each row's own last step.
        """
        bias = self._bias()
        outputs, ended = [], []
        for start, steps in _blocks(sizes, _BLOCK):
            gates = self.input(inputs[start : start + sum(steps)], bias)
            position = 0
            for rows in steps:
                if rows < len(h):
                    ended.append((h[rows:], c[rows:]))
                    h, c = h[:rows], c[:rows]
                h, c = self._step(gates[position : position + rows], h, c)
                outputs.append(h)
                position += rows
        ended.append((h, c))
        last_h, last_c = zip(*reversed(ended), strict=True)
        packed = torch.cat(outputs) if outputs else inputs
        return packed, torch.cat(last_h), torch.cat(last_c)

    def prepare(self, precision: Precision) -> None:
        """Exchange the products for their inference forms."""
        self.input = prepared(self.input, precision)
        self.recurrent = prepared(self.recurrent, precision)
        if not isinstance(self.projection, nn.Identity):
            self.projection = prepared(self.projection, precision)

    def _step(self, gates: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Map input products (rows, 4D), h (rows, P) and c (rows, D) to the next h and c."""
        i, j, f, o = self.recurrent.plus(h, gates).chunk(4, dim=1)
        c = clip(torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(j), self.cell_clip)
        h = clip(self.projection(torch.sigmoid(o) * torch.tanh(c)), self.projection_clip)
        return h, c

    def _bias(self) -> Tensor:
        i, j, f, o = self.bias.chunk(4)
        return torch.cat((i, j, f + self.forget_bias, o))


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


def clip(values: Tensor, bound: float | None) -> Tensor:
    """Bound values symmetrically, or leave them where there is no bound.

    The gradient passes where |value| <= bound, as that of TensorFlow's clip_by_value.
    """
    return values if bound is None else values.clamp(-bound, bound)
