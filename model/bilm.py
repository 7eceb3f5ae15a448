"""The biLM: two independent stacks of LSTMs, one from each end of the sentence."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from model.config import LSTMConfig
from model.packing import Packing
from model.products import Precision
from model.side_by_side import on_one_core, one_after_the_other, side_by_side
from model.stack import Stack
from model.state import State

# From this cell size on a time step's products are long enough for a core of their own for each
# direction; smaller ones are over before two threads have agreed on whose turn it is.
_LARGE_CELL = 2048
# Distinct tokens a place, beyond which it does not pay to look them up.
_REPEATED = 0.8


class BiLM(nn.Module):
    """Both stacks over sentences of any lengths; no sentence changes another's numbers."""

    def __init__(self, config: LSTMConfig, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.forward_stack = Stack(config, dropout)
        self.backward_stack = Stack(config, dropout)

    def forward(
        self,
        tokens: Tensor,
        lengths: Sequence[int],
        state: State | None = None,
        index: Tensor | None = None,
    ) -> tuple[Tensor, State]:
        """Map the tokens of all sentences, one after another, (N, P) to (L + 1, N, 2P).

        `lengths` are the tokens of each sentence, at least 1, N together. Layer 0 is the token
        vector twice. With `index` (N,) the tokens are (distinct, P) and it says which of them
        stands where: what the first layer makes of a token alone is then made once for several
        places. `state` holds a row for each place in the batch; without one, as for rows
        beyond it, all is zero. The state that comes back keeps rows beyond the batch as they were.
        """
        before = self.zero_state(tokens, 0) if state is None else state
        width, rows = tokens.shape[1], len(lengths)
        places = len(tokens) if index is None else len(index)
        layers = tokens.new_empty(self.config.layers + 1, places, 2 * width)
        if not rows:
            return layers, before
        everywhere = tokens if index is None else tokens.index_select(0, index)
        layers[0, :, :width] = layers[0, :, width:] = everywhere
        if tokens.device.type != "cpu" or len(tokens) > _REPEATED * places:
            tokens, index = everywhere, None
        packing = Packing.of(lengths, tokens.device)
        start = before.take(rows)

        def read(stack: Stack, half: int, positions: Tensor) -> tuple[Tensor, Tensor]:
            """Let one direction read; its vectors go to their places, its state comes back."""
            h = start.h.chunk(2, dim=2)[half].index_select(1, packing.order)
            c = start.c.chunk(2, dim=2)[half].index_select(1, packing.order)
            if index is None:
                outputs, h, c = stack(tokens[positions], packing.sizes, h, c)
            else:
                outputs, h, c = stack(tokens, packing.sizes, h, c, index[positions])
            columns = slice(half * width, (half + 1) * width)
            for layer, output in enumerate(outputs, start=1):
                layers[layer, :, columns].index_copy_(0, positions, output.to(layers.dtype))
            return h.index_select(1, packing.rank), c.index_select(1, packing.rank)

        if tokens.device.type != "cpu":
            both = one_after_the_other
        else:
            both = side_by_side if self.config.cell >= _LARGE_CELL else on_one_core
        ahead, behind = both(
            lambda: read(self.forward_stack, 0, packing.forward),
            lambda: read(self.backward_stack, 1, packing.backward),
        )
        h, c = (torch.cat(halves, dim=2) for halves in zip(ahead, behind, strict=True))
        return layers, before.carry(State(h, c))

    def opening_state(self, boundaries: Tensor) -> State:
        """Map the vectors (2, P) of the first and the last boundary to a state of one row.

        It is that of the forward direction after the one, and of the backward one after the other.
        """
        _, after = self(boundaries, [1, 1])
        h, c = (
            torch.cat((both[:, :1].chunk(2, dim=2)[0], both[:, 1:].chunk(2, dim=2)[1]), dim=2)
            for both in (after.h, after.c)
        )
        return State(h, c)

    def zero_state(self, like: Tensor, rows: int) -> State:
        """Return the state before anything was read, of the type and on the device of `like`."""
        config = self.config
        return State(
            like.new_zeros(config.layers, rows, 2 * config.projection),
            like.new_zeros(config.layers, rows, 2 * config.cell),
        )

    def prepare(self, precision: Precision) -> None:
        """Exchange all layers for their inference forms."""
        self.forward_stack.prepare(precision)
        self.backward_stack.prepare(precision)
