"""The same layer laid out for inference: fewer passes over the gates, faster products."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_model.inference.linear import Precision, PreparedProduct, prepared
from elmo_model.inference.row_buckets import RoundUp, as_they_are, four_at_least, in_steps
from elmo_model.layers import recurrence as time_loop
from elmo_model.layers.lstm import ProjectedLSTM

# Positions whose input products are made at once: large enough for a good product, small enough
# that both directions' results are still near when the time steps read them. That of int8 is
# followed by a pass over it.
_BLOCKS: dict[Precision, int] = {"float32": 256, "bfloat16": 256, "float16": 512, "int8": 128}
# Recurrent weights beyond which those of one step have left the caches before the next.
_NEAR = 4 * 1024**2
_ONE_STEP = 1  # every block of so many positions is a single step


class PreparedLSTM(nn.Module):
    """Computes what a trained ProjectedLSTM computes, to rounding, and cannot be trained.

    A tanh costs a CPU as much as six logistic functions, and tanh(x) = 2 s(2x) - 1. So the
    candidate's weights are doubled, all four gates are one logistic function in place, the cell is
    kept doubled, and the last factor 2 is in the projection's weights. Doubling rounds nothing.
    """

    def __init__(self, trained: ProjectedLSTM, precision: Precision) -> None:
        super().__init__()
        self.input = prepared(_reordered(trained.input.weight.detach()), precision)
        self.recurrent = prepared(_reordered(trained.recurrent.weight.detach()), precision)
        self.register_buffer("bias", _reordered(trained.run_time_bias().detach()), persistent=False)
        self.bias: Tensor
        self.projection: PreparedProduct | None = None
        if not isinstance(trained.projection, nn.Identity):
            self.projection = prepared(2 * trained.projection.weight.detach(), precision)
        self.cell_clip = trained.cell_clip
        self.projection_clip = trained.projection_clip
        self.block = _BLOCKS[precision]
        are_far = precision == "float32" and trained.recurrent.weight.numel() > _NEAR
        self._few_rows = four_at_least if are_far else in_steps

    def forward(
        self, inputs: Tensor, sizes: Sequence[int], h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Map packed (positions, P) to packed (positions, P) and the state after each row's end.

        As `ProjectedLSTM.forward`.
        """
        return self._run(
            inputs,
            lambda block: self.input.addend(block, self.bias),
            sizes,
            h,
            c,
            self.block,
        )

    def gates_of(self, tokens: Tensor) -> Tensor:
        """Map token vectors (m, P) to what the gates get from them (m, 4D), for `look_up`."""
        count = len(tokens)
        filled = functional.pad(tokens, (0, 0, 0, self.round_up(count) - count))
        return self.input.addend(filled, self.bias)[:count]

    def look_up(
        self, gates: Tensor, index: Tensor, sizes: Sequence[int], h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As `forward` with what `gates_of` made of the inputs: gates (m, 4D), index (positions,).

        They are gathered step by step, so that they are still near when the step reads them.
        """
        return self._run(
            index.unsqueeze(1),
            lambda step: gates.index_select(0, step.squeeze(1)),
            sizes,
            h,
            c,
            _ONE_STEP,
        )

    def _run(
        self,
        inputs: Tensor,
        input_gates: time_loop.InputGates,
        sizes: Sequence[int],
        h: Tensor,
        c: Tensor,
        block: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        packed, last_h, last_c = time_loop.run(
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

    @property
    def round_up(self) -> RoundUp:
        """What row counts the products are given."""
        return self._few_rows if self.bias.device.type == "cpu" else as_they_are

    def _step(self, gates: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Map input products (rows, 4D), h (rows, P) and 2c (rows, D) to the next h and 2c."""
        i, f, o, j = self.recurrent.plus(h, gates).sigmoid_().chunk(4, dim=1)
        # in place of the forget gates, which are nowhere else: no new memory to touch
        c = f.mul_(c).addcmul_(i, j.sub_(0.5), value=4.0)
        if self.cell_clip is not None:
            c.clamp_(-2 * self.cell_clip, 2 * self.cell_clip)
        half = c.sigmoid().sub_(0.5).mul_(o)
        h = half.mul_(2.0) if self.projection is None else self.projection(half)
        if self.projection_clip is not None:
            h.clamp_(-self.projection_clip, self.projection_clip)
        return h, c


def _reordered(gates: Tensor) -> Tensor:
    """Map input, candidate, forget, output to input, forget, output, twice the candidate."""
    i, j, f, o = gates.chunk(4)
    return torch.cat((i, f, o, 2 * j))
