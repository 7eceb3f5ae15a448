"""The biLM: two independent stacks of LSTMs, one from each end of the sentence."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo_model.network.config import LSTMConfig
from elmo_model.network.packing import Packing
from elmo_model.network.stack import Stack
from elmo_model.network.state import DirectionState, State


class BiLM(nn.Module):
    """Both stacks over sentences of any lengths; no sentence changes another one's vectors."""

    def __init__(self, config: LSTMConfig, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.forward_stack = Stack(config, dropout)
        self.backward_stack = Stack(config, dropout)

    def forward(
        self, tokens: Tensor, lengths: Sequence[int], state: State | None = None
    ) -> tuple[Tensor, State]:
        """Map the tokens of all sentences, one after another, (N, P) to (L + 1, N, 2P).

        `lengths` are the tokens of each sentence, at least 1, N in all. `state` has one row for
        each sentence; rows that it lacks are zero, and without a state all are. The returned state
        keeps the rows of `state` beyond the batch unchanged.
        """
        before = self.zero_state(tokens, 0) if state is None else state
        # Layer 0 is the token vector twice, so that every layer is 2P wide.
        token_layer = torch.cat((tokens, tokens), dim=1)  # (N, 2P)
        if not lengths:
            return token_layer.expand(self.config.layers + 1, -1, -1), before
        packing = Packing.of(lengths, tokens.device)
        past, future = before.take(len(lengths)).directions()
        ahead, past = _run(self.forward_stack, tokens, packing, packing.forward, past)
        behind, future = _run(self.backward_stack, tokens, packing, packing.backward, future)
        upper = [torch.cat(both, dim=1) for both in zip(ahead, behind, strict=True)]  # L x (N, 2P)
        return torch.stack([token_layer, *upper]), before.carry(State.join(past, future))

    def zero_state(self, like: Tensor, rows: int) -> State:
        """Return the state before the first token, of the type and on the device of `like`."""
        return State.zero(self.config, like, rows)


def _run(
    stack: Stack, tokens: Tensor, packing: Packing, positions: Tensor, state: DirectionState
) -> tuple[list[Tensor], DirectionState]:
    """Map tokens (N, P) to the L layers (N, P) of one direction and the state after.

    `positions` says which token stands at each packed position; the results are in the order of
    the tokens and of the sentences again.
    """
    h, c = (values.index_select(1, packing.order) for values in state)
    packed, h, c = stack(tokens[positions], packing.sizes, h, c)
    outputs = [
        torch.empty_like(tokens).index_copy(0, positions, output.to(tokens.dtype))
        for output in packed
    ]
    return outputs, (h.index_select(1, packing.rank), c.index_select(1, packing.rank))
