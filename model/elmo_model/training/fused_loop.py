"""The fused loop: all steps of an LSTM as one autograd function."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_model.network.lstm import ProjectedLSTM
from elmo_model.training.kernels import Step, StepBackward, kernels


def fused_loop(
    lstm: ProjectedLSTM, inputs: Tensor, keep: Tensor, h: Tensor, c: Tensor, noise: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Map T steps of B rows, (T, B, P), to outputs (T, B, P) and the state after the last step.

    `keep` (T, B, 1) is zero where a row starts a sentence: its state before that step counts as
    zero. h (B, P) and c (B, D) are the state before the first step, which gets no gradient: it
    belongs to text of an earlier batch. `noise` (T, B, P) is added to what each step reads of the
    last one.

    The backward pass is written by hand: it walks the steps once, and the gradient of every matrix
    is one product over all steps instead of one per step.
    """
    device, dtype = inputs.device.type, inputs.dtype
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    gates = functional.linear(inputs, lstm.input.weight, lstm.run_time_bias()).to(dtype)
    is_projected = isinstance(lstm.projection, nn.Linear)
    with torch.autocast(device, enabled=False):
        outputs, last_c = _FusedLoop.apply(  # type: ignore[no-untyped-call]
            gates,
            lstm.recurrent.weight.to(dtype),
            lstm.projection.weight.to(dtype) if is_projected else None,
            keep.to(dtype),
            h.detach().to(dtype),
            # cells add up over time: never less than float32
            (c.detach() if c.dtype == torch.float64 else c.detach().float()).contiguous(),
            (lstm.cell_clip, lstm.projection_clip),
            None if noise is None else noise.to(dtype),
        )
    return outputs, outputs[-1].detach().to(h.dtype), last_c


class _FusedLoop(torch.autograd.Function):
    """Map input products (T, B, 4D) to outputs (T, B, P) and the last cells (B, D)."""

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        recurrent: Tensor,
        projection: Tensor | None,
        keep: Tensor,
        h: Tensor,
        c: Tensor,
        clips: tuple[float | None, float | None],
        noise: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        outputs, past = h.new_empty(len(gates), *h.shape), h.new_empty(len(gates), *h.shape)
        columns, forward_step = recurrent.t(), passes(gates)[0]
        saved: list[tuple[Tensor, ...]] = []
        for t, kept in enumerate(keep):
            torch.mul(h, kept, out=past[t])
            if noise is not None:
                past[t] += noise[t]
            sums = torch.addmm(gates[t], past[t], columns)
            saved.append(forward_step(sums, c, kept, clips[0]))
            _, c, *_, unprojected = saved[-1]
            h = outputs[t]
            if projection is None:
                h.copy_(unprojected)
            else:
                torch.mm(unprojected, projection.t(), out=h)
            if clips[1] is not None:
                h.clamp_(-clips[1], clips[1])
        flat = [tensor for values in saved for tensor in values]
        ctx.save_for_backward(outputs, past, keep, recurrent, projection, *flat)
        ctx.clips = clips
        ctx.mark_non_differentiable(c)
        return outputs, c

    @staticmethod
    def backward(ctx: Any, d_outputs: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        outputs, past, keep, recurrent, projection, *rest = ctx.saved_tensors
        steps = [tuple(rest[start : start + 6]) for start in range(0, len(rest), 6)]
        cell_clip, projection_clip = ctx.clips
        d_outputs = d_outputs.clone(memory_format=torch.contiguous_format)
        d_gates = outputs.new_empty(*outputs.shape[:2], 4 * steps[0][1].shape[1])
        backward_step = passes(outputs)[1]
        d_cell, d_past = torch.zeros_like(steps[0][1]), torch.zeros_like(outputs[0])
        for t in reversed(range(len(steps))):
            d_output = d_outputs[t]
            d_output += d_past
            # a clipped value stands at the bound, where no gradient passes
            if projection_clip is not None:
                d_output.mul_(outputs[t].abs() < projection_clip)
            d_unprojected = d_output if projection is None else d_output @ projection
            d_cell = backward_step(d_unprojected, d_cell, steps[t], cell_clip, d_gates[t])
            d_past = (d_gates[t] @ recurrent).mul_(keep[t])
        d_recurrent = d_gates.flatten(0, 1).t() @ past.flatten(0, 1)
        d_projection = None
        if projection is not None:
            d_projection = d_outputs.flatten(0, 1).t() @ torch.cat([values[5] for values in steps])
        return d_gates, d_recurrent, d_projection, None, None, None, None, None


def passes(values: Tensor) -> tuple[Step, StepBackward]:
    """Return the forward and the backward pass of a step on values of this type and device."""
    found = kernels(values.device, values.dtype) if values.device.type == "cuda" else None
    return found or (step, step_backward)


def step(z: Tensor, c: Tensor, kept: Tensor, bound: float | None) -> tuple[Tensor, ...]:
    """Map the sums of the gates (B, 4D), overwritten, and the cell (B, D) to the next step.

    The cell counts as zero where `kept` (B, 1) is. Returns what the backward pass needs: the
    activated gates (B, 4D), the next cell, the cell before, `kept`, the tanh of the next cell, and
    the output before the projection, (B, D) each. Passes over memory bound the speed on a CPU:
    operations are in place, and tanh(x) is 2 sigmoid(2x) - 1, which torch computes three times as
    fast.
    """
    gates = z.to(c.dtype)
    i, j, f, o = gates.chunk(4, dim=1)
    j.mul_(2)
    gates.sigmoid_()
    j.mul_(2).sub_(1)
    cell = (f * c).mul_(kept).addcmul_(i, j)
    if bound is not None:
        cell.clamp_(-bound, bound)
    tanh_c = (cell * 2).sigmoid_().mul_(2).sub_(1)
    return gates.to(z.dtype), cell, c, kept, tanh_c, (o * tanh_c).to(z.dtype)


def step_backward(
    d_unprojected: Tensor,
    d_cell: Tensor,
    values: tuple[Tensor, ...],
    bound: float | None,
    d_sums: Tensor,
) -> Tensor:
    """Map the gradients of a step's unprojected output and cell, (B, D) each, to those before.

    `values` is what `step` returned. Writes the gradient of the sums of the gates to `d_sums`
    (B, 4D) and returns that of the cell before (B, D).
    """
    activations, cell, before, kept, tanh_c, _ = values
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
    d_before = total.mul_(kept)
    d_f.mul_(d_before * before)
    d_o.mul_(d_output * tanh_c)
    d_sums.copy_(d_gates)
    return d_before.mul_(f)
