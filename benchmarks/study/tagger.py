"""A BiLSTM-CRF tagger on static word vectors, with ELMo at its input, its output, or both."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.study.crf import Crf
from elmo_model.network.scalar_mix import ScalarMix

Place = Literal["none", "input", "output", "both"]
PLACES: tuple[Place, ...] = get_args(Place)


@dataclass(frozen=True, slots=True)
class Batch:
    """B sentences, padded to `time` tokens.

    `static` is (B, time, W), `layers` (L + 1, B, time, 2P), `labels` (B, time) and `lengths` (B,).
    """

    static: Tensor
    layers: Tensor
    labels: Tensor
    lengths: Tensor


class Tagger(nn.Module):
    """Word vectors x, a BiLSTM that gives h, and a CRF (Peters et al. 2018, section 3.3).

    At the input x becomes [x; ELMo], at the output h becomes [h; ELMo]; each place has a mixture of
    its own, with its own s and gamma. The word vectors stay as they are. `gamma` is the initial
    scale of the mixtures, `hidden` the width of each direction.
    """

    def __init__(
        self,
        place: Place,
        classes: Sequence[str],
        *,
        static: int,
        layers: int,
        dimension: int,
        hidden: int,
        dropout: float,
        gamma: float,
    ) -> None:
        super().__init__()
        self.at_input = self._mixture(place in ("input", "both"), layers, gamma)
        self.at_output = self._mixture(place in ("output", "both"), layers, gamma)
        below = static + (dimension if self.at_input is not None else 0)
        above = 2 * hidden + (dimension if self.at_output is not None else 0)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(below, hidden, batch_first=True, bidirectional=True)
        self.linear = nn.Linear(above, len(classes))
        self.crf = Crf(classes)

    @staticmethod
    def _mixture(wanted: bool, layers: int, gamma: float) -> ScalarMix | None:
        if not wanted:
            return None
        mixture = ScalarMix(layers)
        with torch.no_grad():
            mixture.gamma.fill_(gamma)
        return mixture

    def forward(self, batch: Batch) -> Tensor:
        """Map a batch to emissions (B, time, C)."""
        below = self.dropout(_joined(batch.static, self.at_input, batch.layers))
        packed = pack_padded_sequence(below, batch.lengths, batch_first=True, enforce_sorted=False)
        found, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        above = self.dropout(_joined(found, self.at_output, batch.layers))
        emissions: Tensor = self.linear(above)
        return emissions

    def loss(self, batch: Batch, l2_weights: float) -> Tensor:
        """Return the mean loss of the CRF, plus `l2_weights` times the squared norm of each s."""
        loss = self.crf.loss(self(batch), batch.labels, batch.lengths)
        for mixture in self.mixtures.values():
            loss = loss + l2_weights * mixture.weights.square().sum()
        return loss

    @torch.inference_mode()
    def predict(self, batch: Batch) -> list[list[int]]:
        """Return the class numbers of each sentence."""
        return self.crf.best(self(batch), batch.lengths)

    @property
    def mixtures(self) -> dict[str, ScalarMix]:
        """The mixtures that there are, by their place."""
        found = {"input": self.at_input, "output": self.at_output}
        return {name: mixture for name, mixture in found.items() if mixture is not None}


def _joined(vectors: Tensor, mixture: ScalarMix | None, layers: Tensor) -> Tensor:
    """Map (B, time, width) and (L + 1, B, time, 2P) to (B, time, width + 2P), or the first."""
    if mixture is None:
        return vectors
    mixed = mixture(layers.flatten(1, 2)).unflatten(0, layers.shape[1:3])
    return torch.cat((vectors, mixed), dim=2)
