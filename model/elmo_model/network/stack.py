"""One direction of the biLM: its LSTMs, one above the other."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo_model.network.config import LSTMConfig
from elmo_model.network.lstm import ProjectedLSTM


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
