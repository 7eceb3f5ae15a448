"""One direction of the biLM: its LSTMs one above the other."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo_model.config import LSTMConfig
from elmo_model.inference.linear import Precision
from elmo_model.inference.lstm import PreparedLSTM
from elmo_model.layers.lstm import ProjectedLSTM


class Stack(nn.Module):
    """The L layers of one direction.

    Dropout, where there is any, falls on the input of every layer, and the residual adds the
    dropped input: in bilm-tf the dropout wraps the residual cell.
    """

    def __init__(self, config: LSTMConfig, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(ProjectedLSTM(config) for _ in range(config.layers))
        self.dropout = nn.Dropout(dropout)
        self.skip = config.skip

    def forward(
        self,
        tokens: Tensor,
        sizes: Sequence[int],
        h: Tensor,
        c: Tensor,
        gates: Tensor | None = None,
    ) -> tuple[list[Tensor], Tensor, Tensor]:
        """Map packed (positions, P) to the L layers' packed outputs and the state after.

        With `gates` (m, 4D), which `gates_of` made, `tokens` are their rows (positions,) instead.

        `sizes` are the rows of each time step, longest row first; h is (L, rows, P), c is
        (L, rows, D). A batch of full rows of T steps is packed time by time: sizes are T times
        its rows.
        """
        outputs: list[Tensor] = []
        last_h, last_c = [], []
        inputs = tokens
        for number, layer in enumerate(self.layers):
            state = h[number], c[number]
            if number == 0 and gates is not None:
                output, layer_h, layer_c = self._prepared(0).look_up(gates, tokens, sizes, *state)
            else:
                inputs = self.dropout(inputs)
                output, layer_h, layer_c = layer(inputs, sizes, *state)
            # Residual only from the second layer, and in some models nowhere. The sum is the
            # layer's output; what is carried in h is the LSTM's own.
            if self.skip and number > 0:
                output = output + inputs
            outputs.append(output)
            last_h.append(layer_h)
            last_c.append(layer_c)
            inputs = output
        return outputs, torch.stack(last_h), torch.stack(last_c)

    @property
    def is_prepared(self) -> bool:
        """Say whether the layers have their inference form."""
        return isinstance(self.layers[0], PreparedLSTM)

    def gates_of(self, tokens: Tensor) -> Tensor:
        """Map token vectors (m, P) to what the first layer's gates get from them (m, 4D).

        Of a prepared stack only.
        """
        return self._prepared(0).gates_of(tokens)

    def prepare(self, precision: Precision) -> None:
        """Exchange every layer for its inference form; what was prepared before stays."""
        for number, layer in enumerate(self.layers):
            if isinstance(layer, ProjectedLSTM):
                self.layers[number] = PreparedLSTM(layer, precision)

    def _prepared(self, number: int) -> PreparedLSTM:
        layer = self.layers[number]
        assert isinstance(layer, PreparedLSTM)
        return layer
