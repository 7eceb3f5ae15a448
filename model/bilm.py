"""The biLM: two independent stacks of LSTMs, one from each end of the sentence."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from model.config import LSTMConfig
from model.packing import Packing
from model.products import Precision
from model.side_by_side import one_after_the_other, side_by_side
from model.stack import Stack
from model.state import State


class BiLM(nn.Module):
    """Both stacks over sentences of any lengths; no sentence changes another's numbers."""

    def __init__(self, config: LSTMConfig, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.forward_stack = Stack(config, dropout)
        self.backward_stack = Stack(config, dropout)

    def forward(
        self, tokens: Tensor, lengths: Sequence[int], state: State | None = None
    ) -> tuple[Tensor, State]:
        """Map the tokens of all sentences, one after another, (N, P) to (L + 1, N, 2P).

        `lengths` are the tokens of each sentence, at least 1, N together. Layer 0 is the token
        vector twice. `state` holds a row for each place in the batch; without one, as for rows
        beyond it, all is zero. The state that comes back keeps rows beyond the batch as they were.
        """
        before = self.zero_state(tokens, 0) if state is None else state
        if not lengths:
            return tokens.new_empty(self.config.layers + 1, 0, 2 * tokens.shape[1]), before
        packing = Packing.of(lengths, tokens.device)
        start = before.take(len(lengths))
        h = start.h[:, packing.order].chunk(2, dim=2)
        c = start.c[:, packing.order].chunk(2, dim=2)
        both = side_by_side if tokens.device.type == "cpu" else one_after_the_other
        (ahead, h_ahead, c_ahead), (behind, h_behind, c_behind) = both(
            lambda: self.forward_stack(tokens[packing.forward], packing.sizes, h[0], c[0]),
            lambda: self.backward_stack(tokens[packing.backward], packing.sizes, h[1], c[1]),
        )
        layers = [torch.cat((tokens, tokens), dim=1)]
        for forward, backward in zip(ahead, behind, strict=True):
            halves = forward[packing.from_forward], backward[packing.from_backward]
            layers.append(torch.cat(halves, dim=1))
        after = State(
            torch.cat((h_ahead, h_behind), dim=2)[:, packing.rank],
            torch.cat((c_ahead, c_behind), dim=2)[:, packing.rank],
        )
        return torch.stack(layers), before.carry(after)

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
