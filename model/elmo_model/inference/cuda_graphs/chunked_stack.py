"""One direction of the biLM over a chunk of time steps, on buffers that stay where they are."""

import torch
from torch import Tensor

from elmo_model.inference.cuda_graphs.capturer import CaptureError
from elmo_model.inference.cuda_graphs.gate_update import GateUpdate
from elmo_model.inference.linear import Linear
from elmo_model.inference.linear.plain import PlainLinear, ReducedLinear
from elmo_model.inference.lstm import InferenceLSTM
from elmo_model.inference.stack import InferenceStack


class ChunkedStack:
    """The layers of one direction. Raises CaptureError for products that no graph can hold."""

    def __init__(self, stack: InferenceStack, update: GateUpdate) -> None:
        self._layers = [_ChunkedLSTM(layer, update) for layer in stack.layers]
        self._skip = stack.skip

    def advance(self, tokens: Tensor, outputs: Tensor, h: Tensor, c: Tensor) -> None:
        """Compute tokens (steps * rows, P), step by step; write outputs (L, steps * rows, P).

        h (L, rows, P) and twice the cells c (L, rows, D) are the state before, and then the state
        after. Rows that have ended are computed too, and their results are discarded.
        """
        inputs = tokens
        for number, layer in enumerate(self._layers):
            own = layer.advance(inputs, h[number], c[number])
            if self._skip and number > 0:  # the residual, from the second layer on
                torch.add(inputs, own, out=outputs[number])
            else:
                outputs[number].copy_(own)
            inputs = outputs[number]


class _ChunkedLSTM:
    def __init__(self, layer: InferenceLSTM, update: GateUpdate) -> None:
        self._layer = layer
        self._recurrent = _plain(layer.recurrent)
        self._projection = None if layer.projection is None else _plain(layer.projection)
        self._update = update

    def advance(self, inputs: Tensor, h: Tensor, c: Tensor) -> Tensor:
        """Map (steps * rows, P) to the same shape; h (rows, P) and c (rows, D) change in place."""
        layer, projection = self._layer, self._projection
        dtype = c.dtype if projection is None else projection.weight.dtype
        state, outputs = h, []
        for addend in torch.split(layer.input.with_bias(inputs, layer.bias), len(h)):
            half = self._update(addend, self._recurrent.matmul(state), c, layer.cell_clip, dtype)
            state = half.mul_(2.0) if projection is None else projection.matmul(half)
            if layer.projection_clip is not None:
                state.clamp_(-layer.projection_clip, layer.projection_clip)
            outputs.append(state)
        h.copy_(state)
        return torch.cat(outputs)


def _plain(linear: Linear) -> PlainLinear | ReducedLinear:
    if isinstance(linear, PlainLinear | ReducedLinear):
        return linear
    raise CaptureError(f"a {type(linear).__name__} cannot be captured, expected a plain product")
