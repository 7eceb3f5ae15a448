"""The projected LSTM for inference: fewer passes over the gates, faster products."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_model.inference import recurrence
from elmo_model.inference.linear import Linear, linear_of
from elmo_model.inference.precision import FORMATS, Precision
from elmo_model.inference.row_buckets import RoundUp, exactly, four_at_least, in_steps
from elmo_model.network.lstm import ProjectedLSTM
from elmo_model.network.recurrence import InputGates

# Recurrent weights (numbers) beyond which the weights of one time step have left the processor's
# caches before the next step: 16 MiB in float32 (benchmarks/RESULTS.md).
_NEAR = 4 * 1024**2
_ONE_STEP = 1  # a block of at most one position is a single step


class InferenceLSTM:
    """Computes what a trained `ProjectedLSTM` computes, up to rounding.

    A tanh costs a CPU as much as six logistic functions, and tanh(x) = 2 s(2x) - 1. So the
    candidate's weights are doubled, all four gates are one logistic function in place, the cell is
    kept doubled, and the last factor 2 is in the projection's weights. Doubling rounds nothing.
    The gates are reordered to input, forget, output, candidate.
    """

    def __init__(self, trained: ProjectedLSTM, precision: Precision) -> None:
        recurrent = trained.recurrent.weight.detach()
        self.input: Linear = linear_of(_reordered(trained.input.weight.detach()), precision)
        self.recurrent: Linear = linear_of(_reordered(recurrent), precision)
        self.bias = _reordered(trained.run_time_bias().detach())  # (4D,)
        self.projection: Linear | None = None
        if not isinstance(trained.projection, nn.Identity):
            self.projection = linear_of(2 * trained.projection.weight.detach(), precision)
        self.cell_clip = trained.cell_clip
        self.projection_clip = trained.projection_clip
        self.block = FORMATS[precision].block
        are_far = precision == "float32" and recurrent.numel() > _NEAR
        few_rows = four_at_least if are_far else in_steps
        self.round_up: RoundUp = few_rows if self.bias.device.type == "cpu" else exactly

    def run(
        self, inputs: Tensor, sizes: Sequence[int], h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Map packed (positions, P) to packed (positions, P) and the state after each row's end.

        As `ProjectedLSTM.forward`.
        """
        return self._run(
            inputs, lambda block: self.input.with_bias(block, self.bias), sizes, h, c, self.block
        )

    def project(self, tokens: Tensor) -> Tensor:
        """Map token vectors (m, P) to their input products (m, 4D), for `run_projected`."""
        count = len(tokens)
        filled = functional.pad(tokens, (0, 0, 0, self.round_up(count) - count))
        return self.input.with_bias(filled, self.bias)[:count]

    def run_projected(
        self, projected: Tensor, index: Tensor, sizes: Sequence[int], h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As `run`, with input products (m, 4D) of which `index` (positions,) names the rows.

        They are gathered step by step, so that they are still in the caches when the step reads
        them.
        """
        return self._run(
            index.unsqueeze(1),
            lambda step: projected.index_select(0, step.squeeze(1)),
            sizes,
            h,
            c,
            _ONE_STEP,
        )

    def _run(
        self,
        inputs: Tensor,
        input_gates: InputGates,
        sizes: Sequence[int],
        h: Tensor,
        c: Tensor,
        block: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        packed, last_h, last_c = recurrence.run(
            inputs,
            sizes,
            h,
            2.0 * c,
            input_gates=input_gates,
            step=self._step,
            block=block,
            round_up=self.round_up,
        )
        return packed, last_h, last_c.mul_(0.5)

    def _step(self, gates: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Map input products (rows, 4D), h (rows, P) and 2c (rows, D) to the next h and 2c."""
        i, f, o, j = self.recurrent.addmm(gates, h).sigmoid_().chunk(4, dim=1)
        # The new cell overwrites the forget gates, which nothing else reads: no new memory.
        c = f.mul_(c).addcmul_(i, j.sub_(0.5), value=4.0)
        if self.cell_clip is not None:
            c.clamp_(-2 * self.cell_clip, 2 * self.cell_clip)
        half = c.sigmoid().sub_(0.5).mul_(o)
        h = half.mul_(2.0) if self.projection is None else self.projection.linear(half)
        if self.projection_clip is not None:
            h.clamp_(-self.projection_clip, self.projection_clip)
        return h, c


def _reordered(gates: Tensor) -> Tensor:
    """Map rows of input, candidate, forget, output to input, forget, output, 2 x candidate."""
    i, j, f, o = gates.chunk(4)
    return torch.cat((i, f, o, 2 * j))
