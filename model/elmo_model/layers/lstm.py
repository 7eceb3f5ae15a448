"""One layer of one direction: an LSTM with a projected output."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo_model.config import LSTMConfig
from elmo_model.inference.linear import Product
from elmo_model.layers import recurrence as time_loop

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
        self.input = Product(width, gates)
        self.recurrent = Product(width, gates)
        self.bias = nn.Parameter(torch.empty(gates))
        self.projection: Product | nn.Identity = (
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
        bias = self.run_time_bias()
        return time_loop.run(
            inputs,
            sizes,
            h,
            c,
            input_gates=lambda block: self.input(block, bias),
            step=self._step,
            block=_BLOCK,
        )

    def run_time_bias(self) -> Tensor:
        """Return the bias (4D,) with the forget gate's share added."""
        i, j, f, o = self.bias.chunk(4)
        return torch.cat((i, j, f + self.forget_bias, o))

    def _step(self, gates: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Map input products (rows, 4D), h (rows, P) and c (rows, D) to the next h and c."""
        i, j, f, o = self.recurrent.plus(h, gates).chunk(4, dim=1)
        c = clip(torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(j), self.cell_clip)
        h = clip(self.projection(torch.sigmoid(o) * torch.tanh(c)), self.projection_clip)
        return h, c


def clip(values: Tensor, bound: float | None) -> Tensor:
    """Bound values symmetrically, or leave them where there is no bound.

    The gradient passes where |value| <= bound, as that of TensorFlow's clip_by_value.
    """
    return values if bound is None else values.clamp(-bound, bound)
