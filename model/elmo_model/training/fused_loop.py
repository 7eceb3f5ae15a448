"""The fused loop: all steps of an LSTM as one autograd function."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_model.network.bilm import BiLM
from elmo_model.network.config import LSTMConfig
from elmo_model.network.lstm import ProjectedLSTM


def use_fused_loop(bilm: BiLM, noise: float = 0.0) -> None:
    """Replace the LSTMs of a biLM by `FusedLSTM`; parameters and their names stay.

    `noise` is the standard deviation of the noise on the outputs that the next step reads. An LSTM
    without a projection keeps the loop of the network, without noise.
    """
    for stack in (bilm.forward_stack, bilm.backward_stack):
        for number, layer in enumerate(stack.layers):
            assert isinstance(layer, ProjectedLSTM)
            if isinstance(layer.projection, nn.Linear):
                stack.layers[number] = FusedLSTM.over(layer, bilm.config, noise, number)


class FusedLSTM(ProjectedLSTM):
    """A projected LSTM whose backward pass is written by hand.

    The backward pass walks the steps once, and the gradient of every matrix is one product over all
    steps instead of one per step. The state before the first step gets no gradient: it belongs to
    text of an earlier batch. Where a gradient is computed, every step reads the output of the last
    one with Gaussian `noise`, drawn from torch's seed and `number`, so that threads do not share a
    generator.
    """

    noise: float
    number: int

    @classmethod
    def over(
        cls, layer: ProjectedLSTM, config: LSTMConfig, noise: float, number: int
    ) -> "FusedLSTM":
        """Return a fused LSTM that shares the parameters of `layer`."""
        with torch.device("meta"):
            fused = cls(config)
        fused.input, fused.recurrent = layer.input, layer.recurrent
        fused.bias, fused.projection = layer.bias, layer.projection
        fused.noise, fused.number = noise, number
        return fused

    def forward(
        self, inputs: Tensor, sizes: Sequence[int], h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Map packed (positions, P) to packed (positions, P) and the state after each row's end."""
        if not torch.is_grad_enabled() or not sizes:
            return super().forward(inputs, sizes, h, c)
        assert isinstance(self.projection, nn.Linear)
        device, dtype = inputs.device.type, inputs.dtype
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
        gates = functional.linear(inputs, self.input.weight, self.run_time_bias()).to(dtype)
        with torch.autocast(device, enabled=False):
            outputs, cells = _FusedLoop.apply(  # type: ignore[no-untyped-call]
                gates,
                self.recurrent.weight.to(dtype),
                self.projection.weight.to(dtype),
                h.detach().to(dtype),
                # cells add up over time: never less than float32
                c.detach() if c.dtype == torch.float64 else c.detach().float(),
                tuple(sizes),
                (self.cell_clip, self.projection_clip),
                self._noise_like(gates, h.shape[1]),
            )
        return outputs, _ends(outputs, sizes).to(h.dtype), _ends(cells, sizes)

    def _noise_like(self, gates: Tensor, width: int) -> Tensor | None:
        if not self.noise:
            return None
        generator = torch.Generator(gates.device)
        generator.manual_seed((torch.initial_seed() + self.number) % (1 << 63))
        noise = torch.randn(len(gates), width, generator=generator, device=gates.device)
        return noise.mul_(self.noise).to(gates.dtype)


class _FusedLoop(torch.autograd.Function):
    """Map packed input products (N, 4D) to packed outputs (N, P) and cells (N, D)."""

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        recurrent: Tensor,
        projection: Tensor,
        h: Tensor,
        c: Tensor,
        sizes: tuple[int, ...],
        clips: tuple[float | None, float | None],
        noise: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        outputs, past = h.new_empty(len(gates), h.shape[1]), h.new_empty(len(gates), h.shape[1])
        columns, projected = recurrent.t(), projection.t()
        saved: list[tuple[Tensor, ...]] = []
        past_h, past_c = h, c
        for here in _slices(sizes):
            rows = here.stop - here.start
            torch.add(past_h[:rows], 0 if noise is None else noise[here], out=past[here])
            z = torch.addmm(gates[here], past[here], columns)
            step = _step(z, past_c[:rows], clips[0])
            saved.append(step)
            _, past_c, _, unprojected = step
            past_h = outputs[here]
            torch.mm(unprojected, projected, out=past_h)
            if clips[1] is not None:
                past_h.clamp_(-clips[1], clips[1])
        flat = [tensor for step in saved for tensor in step]
        ctx.save_for_backward(outputs, past, recurrent, projection, c, *flat)
        ctx.sizes, ctx.clips = sizes, clips
        cells = torch.cat([cell for _, cell, _, _ in saved])
        ctx.mark_non_differentiable(cells)
        return outputs, cells

    @staticmethod
    def backward(ctx: Any, d_outputs: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        outputs, past, recurrent, projection, c, *flat = ctx.saved_tensors
        steps = list(zip(flat[0::4], flat[1::4], flat[2::4], flat[3::4], strict=True))
        slices, (cell_clip, projection_clip) = _slices(ctx.sizes), ctx.clips
        d_outputs = d_outputs.clone(memory_format=torch.contiguous_format)
        # a clipped value stands at the bound, where no gradient passes
        inside = None if projection_clip is None else outputs.abs() < projection_clip
        d_gates = []
        d_cell, d_past = c.new_zeros(0, c.shape[1]), past.new_zeros(0, past.shape[1])
        for t in reversed(range(len(slices))):
            here, rows = slices[t], ctx.sizes[t]
            d_output = d_outputs[here]
            d_output[: len(d_past)] += d_past
            if inside is not None:
                d_output.mul_(inside[here])
            if len(d_cell) < rows:  # rows that end at this step
                d_cell = functional.pad(d_cell, (0, 0, 0, rows - len(d_cell)))
            before = (c if t == 0 else steps[t - 1][1])[:rows]
            d_z, d_cell = _step_backward(d_output @ projection, d_cell, before, steps[t], cell_clip)
            d_past = d_z @ recurrent
            d_gates.append(d_z)
        d_inputs = torch.cat(d_gates[::-1])
        d_recurrent = d_inputs.t() @ past
        d_projection = d_outputs.t() @ torch.cat([unprojected for *_, unprojected in steps])
        return d_inputs, d_recurrent, d_projection, None, None, None, None, None


def _slices(sizes: Sequence[int]) -> list[slice]:
    """Return the slice of the packed rows that each step has."""
    bounds = [0]
    for rows in sizes:
        bounds.append(bounds[-1] + rows)
    return [slice(begin, end) for begin, end in pairwise(bounds)]


def _ends(packed: Tensor, sizes: Sequence[int]) -> Tensor:
    """Map packed (N, width) to (rows, width): each row at its own last step."""
    later = (*sizes[1:], 0)
    parts = [
        packed[here.start + rows : here.stop]
        for here, rows in zip(_slices(sizes), later, strict=True)
    ]
    return torch.cat(parts[::-1])


def _step(z: Tensor, before: Tensor, bound: float | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Map the sums of the gates (B, 4D), overwritten, and the cell (B, D) to the next step.

    Returns the activated gates (B, 4D), the next cell, its tanh, and the output before the
    projection, (B, D) each. Passes over memory bound the speed on a CPU: operations are in place,
    and tanh(x) is 2 sigmoid(2x) - 1, which torch computes three times as fast.
    """
    gates = z.to(before.dtype)
    i, j, f, o = gates.chunk(4, dim=1)
    j.mul_(2)
    gates.sigmoid_()
    j.mul_(2).sub_(1)
    cell = (f * before).addcmul_(i, j)
    if bound is not None:
        cell.clamp_(-bound, bound)
    tanh_c = (cell * 2).sigmoid_().mul_(2).sub_(1)
    return gates.to(z.dtype), cell, tanh_c, (o * tanh_c).to(z.dtype)


def _step_backward(
    d_unprojected: Tensor,
    d_cell: Tensor,
    before: Tensor,
    step: tuple[Tensor, ...],
    bound: float | None,
) -> tuple[Tensor, Tensor]:
    """Map the gradients of a step's unprojected output and cell, (B, D) each, to those before.

    `before` is the cell before the step, `step` what `_step` returned. Returns the gradient of the
    sums of the gates (B, 4D) and that of the cell before (B, D).
    """
    activations, cell, tanh_c, _ = step
    gates, d_output = activations.to(cell.dtype), d_unprojected.to(cell.dtype)
    i, j, f, o = gates.chunk(4, dim=1)
    d_tanh = d_output * o
    total = (d_cell + d_tanh).addcmul_(d_tanh.mul_(tanh_c), tanh_c, value=-1)
    if bound is not None:
        total.mul_(cell.abs() < bound)
    d_gates = torch.addcmul(gates, gates, gates, value=-1)  # a - a * a, as sigmoid has it
    d_i, d_j, d_f, d_o = d_gates.chunk(4, dim=1)
    d_j.sub_(j).add_(1)  # 1 - j * j, as tanh has it
    d_i.mul_(total * j)
    d_j.mul_(total * i)
    d_f.mul_(total * before)
    d_o.mul_(d_output * tanh_c)
    return d_gates.to(activations.dtype), total.mul_(f)
