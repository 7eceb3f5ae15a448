"""The LSTM's time loop for training: the same numbers, gradients as products over all steps."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from elmo_model.config import LSTMConfig
from elmo_model.inference.linear import Product
from elmo_model.layers.bilm import BiLM
from elmo_model.layers.lstm import ProjectedLSTM

Step = Callable[..., tuple[Tensor, Tensor, Tensor]]

TIME_LOOPS = ("joined", "compiled", "plain")


def use_time_loop(bilm: BiLM, name: str) -> None:
    """Exchange the LSTMs of a biLM for ones with another time loop; parameters and names stay.

    "plain" is the network's own. "joined" is the one below. "compiled" is that with all that a
    step does besides its products fused by torch, which pays where launching many small operations
    is slow, as on a GPU.
    """
    if name == "plain":
        return
    steps = _compiled() if name == "compiled" else (_ahead, _back)
    for stack in (bilm.forward_stack, bilm.backward_stack):
        for number, layer in enumerate(stack.layers):
            assert isinstance(layer, ProjectedLSTM)
            if isinstance(layer.projection, Product):
                stack.layers[number] = JoinedLSTM.of(layer, bilm.config, steps)


class JoinedLSTM(ProjectedLSTM):
    """A projected LSTM that runs through time without help of autograd.

    The backward pass walks the steps once, and the gradient of every matrix is one product over
    all steps instead of one a step. The state before the first step gets no gradient: it belongs
    to text that was read before.
    """

    steps: tuple[Step, Step]

    @classmethod
    def of(cls, layer: ProjectedLSTM, config: LSTMConfig, steps: tuple[Step, Step]) -> "JoinedLSTM":
        """Return such a layer over the very parameters of `layer`."""
        with torch.device("meta"):
            exchanged = cls(config)
        exchanged.input, exchanged.recurrent = layer.input, layer.recurrent
        exchanged.bias, exchanged.projection = layer.bias, layer.projection
        exchanged.steps = steps
        return exchanged

    def forward(
        self, inputs: Tensor, sizes: Sequence[int], h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Map packed (positions, P) to packed (positions, P) and the state after each row's end."""
        if not torch.is_grad_enabled() or not sizes:
            return super().forward(inputs, sizes, h, c)
        assert isinstance(self.projection, Product)
        device, dtype = inputs.device.type, inputs.dtype
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
        gates = self.input(inputs, self.run_time_bias()).to(dtype)
        with torch.autocast(device, enabled=False):
            outputs, cells = _TimeLoop.apply(  # type: ignore[no-untyped-call]
                gates,
                self.recurrent.weight.to(dtype),
                self.projection.weight.to(dtype),
                h.detach().to(dtype),
                # cells add up over time: never less than float32
                c.detach() if c.dtype == torch.float64 else c.detach().float(),
                tuple(sizes),
                (self.cell_clip, self.projection_clip),
                self.steps,
            )
        return outputs, _ends(outputs, sizes).to(h.dtype), _ends(cells, sizes)


class _TimeLoop(torch.autograd.Function):
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
        steps: tuple[Step, Step],
    ) -> tuple[Tensor, Tensor]:
        outputs = h.new_empty(len(gates), h.shape[1])
        products, squeezed = recurrent.t(), projection.t()
        activations, cells = [], []
        past_h, past_c = h, c
        for here in _places(sizes):
            rows = here.stop - here.start
            z = torch.addmm(gates[here], past_h[:rows], products)
            activated, past_c, emitted = steps[0](z, past_c[:rows], clips[0])
            past_h = outputs[here]
            torch.mm(emitted, squeezed, out=past_h)
            if clips[1] is not None:
                past_h.clamp_(-clips[1], clips[1])
            activations.append(activated)
            cells.append(past_c)
        ctx.save_for_backward(outputs, recurrent, projection, h, c, *activations, *cells)
        ctx.sizes, ctx.clips, ctx.step = sizes, clips, steps[1]
        packed = torch.cat(cells)
        ctx.mark_non_differentiable(packed)
        return outputs, packed

    @staticmethod
    def backward(ctx: Any, d_outputs: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        outputs, recurrent, projection, h, c, *steps = ctx.saved_tensors
        places, (cell_clip, projection_clip) = _places(ctx.sizes), ctx.clips
        activations, cells = steps[: len(places)], [c, *steps[len(places) :]]
        d_outputs = d_outputs.clone(memory_format=torch.contiguous_format)
        d_gates, emitted = [], []
        d_cell, d_past = c.new_zeros(0, c.shape[1]), h.new_zeros(0, h.shape[1])
        for t in reversed(range(len(places))):
            here, rows = places[t], ctx.sizes[t]
            d_output = d_outputs[here]
            d_output[: len(d_past)] += d_past
            if projection_clip is not None:
                # what was cut stands at the bound, and there no gradient passes
                d_output.mul_(outputs[here].abs() < projection_clip)
            if len(d_cell) < rows:  # rows that end at this step
                d_cell = functional.pad(d_cell, (0, 0, 0, rows - len(d_cell)))
            d_z, d_cell, said = ctx.step(
                d_output @ projection,
                d_cell,
                activations[t],
                cells[t][:rows],
                cells[t + 1],
                cell_clip,
            )
            d_past = d_z @ recurrent
            d_gates.append(d_z)
            emitted.append(said)
        past = [h[: ctx.sizes[0]]]
        past += [outputs[at][:rows] for at, rows in zip(places, ctx.sizes[1:], strict=False)]
        joined = torch.cat(d_gates[::-1])
        d_recurrent = joined.t() @ torch.cat(past)
        d_projection = d_outputs.t() @ torch.cat(emitted[::-1])
        return joined, d_recurrent, d_projection, None, None, None, None, None


def _places(sizes: Sequence[int]) -> list[slice]:
    """Return where each step's rows lie among the packed ones."""
    bounds = [0]
    for rows in sizes:
        bounds.append(bounds[-1] + rows)
    return [slice(begin, end) for begin, end in pairwise(bounds)]


def _ends(packed: Tensor, sizes: Sequence[int]) -> Tensor:
    """Map packed (N, width) to (rows, width): each row at its own last step."""
    later = (*sizes[1:], 0)
    parts = [
        packed[here.start + rows : here.stop]
        for here, rows in zip(_places(sizes), later, strict=True)
    ]
    return torch.cat(parts[::-1])


def _ahead(z: Tensor, c: Tensor, bound: float | None) -> tuple[Tensor, Tensor, Tensor]:
    """Map the gates' sums (B, 4D) and the cell (B, D) to activated gates, next cell and emitted."""
    i, j, f, o = z.to(c.dtype).chunk(4, dim=1)
    i, j, f, o = i.sigmoid(), j.tanh(), f.sigmoid(), o.sigmoid()
    cell = f * c + i * j
    if bound is not None:
        cell = cell.clamp(-bound, bound)
    return torch.cat((i, j, f, o), dim=1).to(z.dtype), cell, (o * cell.tanh()).to(z.dtype)


def _back(
    d_emitted: Tensor,
    d_cell: Tensor,
    activations: Tensor,
    before: Tensor,
    cell: Tensor,
    bound: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Map the gradients of what was emitted (B, D) and of the cell to those of the step before.

    Returns the gradient of the gates' sums (B, 4D), that of the cell before, and what was emitted.
    """
    i, j, f, o = activations.to(cell.dtype).chunk(4, dim=1)
    wide, squashed = d_emitted.to(cell.dtype), cell.tanh()
    total = d_cell + wide * o * (1 - squashed * squashed)
    if bound is not None:
        total = total * (cell.abs() < bound)
    d_gates = torch.cat(
        (
            total * j * i * (1 - i),
            total * i * (1 - j * j),
            total * before * f * (1 - f),
            wide * squashed * o * (1 - o),
        ),
        dim=1,
    )
    dtype = activations.dtype
    return d_gates.to(dtype), total * f, (o * squashed).to(dtype)


def _compiled() -> tuple[Step, Step]:
    # the rows differ from step to step where sentences start afresh
    return torch.compile(_ahead, dynamic=True), torch.compile(_back, dynamic=True)
