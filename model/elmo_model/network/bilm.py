"""The biLM: two independent stacks of LSTMs, one from each end of the sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmo_model.network.config import LSTMConfig
from elmo_model.network.lstm import ProjectedLSTM
from elmo_model.network.state import DirectionState, State

Numbers = NDArray[np.int64]
"""Lengths of sentences, and places or rows in a batch."""


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
        before = State.zero(self.config, tokens, 0) if state is None else state
        # Layer 0 is the token vector twice, so that every layer is 2P wide.
        token_layer = torch.cat((tokens, tokens), dim=1)  # (N, 2P)
        if not lengths:
            return token_layer.expand(self.config.layers + 1, -1, -1), before
        packing = Packing.of(lengths, tokens.device)
        forward_state, backward_state = before.take(len(lengths)).directions()
        forward, forward_state = _run(
            self.forward_stack, tokens, packing, packing.forward, forward_state
        )
        backward, backward_state = _run(
            self.backward_stack, tokens, packing, packing.backward, backward_state
        )
        # L layers, (N, 2P) each
        upper = [torch.cat(both, dim=1) for both in zip(forward, backward, strict=True)]
        after = State.join(forward_state, backward_state)
        return torch.stack([token_layer, *upper]), before.carry(after)


class Stack(nn.Module):
    """The L layers of one direction.

    Dropout falls on the input of every layer, and the residual adds the dropped input: in bilm-tf
    the dropout wraps the residual cell.
    """

    def __init__(self, config: LSTMConfig, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(ProjectedLSTM(config) for _ in range(config.layers))
        self.dropout = nn.Dropout(dropout)
        self.skip = config.skip

    def forward(
        self, tokens: Tensor, sizes: Sequence[int], h: Tensor, c: Tensor
    ) -> tuple[list[Tensor], Tensor, Tensor]:
        """Map packed (positions, P) to the L layers' packed outputs and the state after.

        `sizes` are the rows of each time step, longest row first; h is (L, rows, P), c is
        (L, rows, D). A batch of B full rows of T steps is packed step by step: sizes are [B] * T.
        """
        outputs: list[Tensor] = []
        last_h, last_c = [], []
        inputs = tokens  # (positions, P)
        for number, layer in enumerate(self.layers):
            inputs = self.dropout(inputs)
            output, layer_h, layer_c = layer(inputs, sizes, h[number], c[number])
            # The residual starts at the second layer, and some models have none. The sum is the
            # layer's output; the state h that is carried is the LSTM's own, without the residual.
            if self.skip and number > 0:
                output = output + inputs
            outputs.append(output)
            last_h.append(layer_h)
            last_c.append(layer_c)
            inputs = output
        return outputs, torch.stack(last_h), torch.stack(last_c)


@dataclass(frozen=True, slots=True)
class Packing:
    """Sentences, longest first, cut into time steps: step t holds the rows longer than t.

    `sizes` are the rows of each step and never rise, so a sentence that has ended takes part in no
    further product. `order` (rows,) lists the sentences from longest to shortest and `rank` (rows,)
    undoes it. `forward` and `backward` (N,) give, for each packed position, the number of the token
    among those of all sentences one after another. The backward direction mirrors each sentence
    within its own length, so it never meets the tokens of another sentence.
    """

    sizes: tuple[int, ...]
    order: Tensor
    rank: Tensor
    forward: Tensor
    backward: Tensor

    @classmethod
    def of(cls, lengths: Sequence[int], device: torch.device) -> "Packing":
        """Pack sentences of these lengths, each at least 1."""
        length = np.asarray(lengths, dtype=np.int64)
        order, sizes, step, row = time_steps(length)
        start = (np.cumsum(length) - length)[row]
        forward = start + step
        backward = start + length[row] - 1 - step
        indices = (order, np.argsort(order), forward, backward)
        return cls(
            sizes,
            *(torch.from_numpy(index).to(device, non_blocking=True) for index in indices),
        )


def time_steps(lengths: Numbers) -> tuple[Numbers, tuple[int, ...], Numbers, Numbers]:
    """Cut rows, longest first, into time steps: step t holds the rows longer than t.

    Returns the rows in that order (rows,), the number of rows of each step, and of each packed
    position its step and its row, (N,) each.
    """
    order = np.argsort(-lengths, kind="stable")
    descending = lengths[order]
    steps = int(descending[0]) if len(descending) else 0
    sizes = np.searchsorted(-descending, -np.arange(steps), side="left")
    step = np.repeat(np.arange(steps), sizes)
    position = np.arange(len(step)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order, tuple(sizes.tolist()), step, order[position]


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
