"""One direction of the biLM over a chunk of time steps, on memory that stays where it is."""

import torch
from torch import Tensor

from elmo_model.inference.cuda_graphs.gates import Update
from elmo_model.inference.linear.fixed import FixedProduct, ReducedProduct
from elmo_model.inference.lstm import PreparedLSTM
from elmo_model.layers.stack import Stack


class Direction:
    """The layers of one direction, prepared, one above the other."""

    def __init__(self, stack: Stack, update: Update) -> None:
        self._layers = [layer for layer in stack.layers if isinstance(layer, PreparedLSTM)]
        self._skip = stack.skip
        self._update = update

    def advance(self, tokens: Tensor, outputs: Tensor, h: Tensor, c: Tensor) -> None:
        """Read tokens (steps * rows, P), step by step; write outputs (L, steps * rows, P).

        h (L, rows, P) and twice the cells c (L, rows, D) are the state before, and then the state
        after; a row that has ended goes on, with numbers that mean nothing.
        """
        inputs = tokens
        for number, layer in enumerate(self._layers):
            own = self._run(layer, inputs, h[number], c[number])
            if self._skip and number > 0:
                torch.add(inputs, own, out=outputs[number])
            else:
                outputs[number].copy_(own)
            inputs = outputs[number]

    def _run(self, layer: PreparedLSTM, inputs: Tensor, h: Tensor, c: Tensor) -> Tensor:
        """Map (steps * rows, P) to the same, by one layer."""
        recurrent, projection = _plain(layer.recurrent), layer.projection
        dtype = c.dtype if projection is None else _plain(projection).weight.dtype
        state, outputs = h, []
        for addend in torch.split(layer.input.addend(inputs, layer.bias), len(h)):
            half = self._update(addend, recurrent.bare(state), c, layer.cell_clip, dtype)
            state = half.mul_(2.0) if projection is None else _plain(projection).bare(half)
            if layer.projection_clip is not None:
                state.clamp_(-layer.projection_clip, layer.projection_clip)
            outputs.append(state)
        h.copy_(state)
        return torch.cat(outputs)


def _plain(product: object) -> FixedProduct | ReducedProduct:
    assert isinstance(product, FixedProduct | ReducedProduct)
    return product
