"""The character CNN: a word's ids to the word's vector, without context."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_model.config import CharCNNConfig
from elmo_model.layers.highway import Highway


class CharCNN(nn.Module):
    """Characters, convolutions of several widths, max over positions, highways, projection.

    `width` is that of the token vector, P.
    """

    def __init__(self, config: CharCNNConfig, width: int) -> None:
        super().__init__()
        self.characters = nn.Parameter(torch.empty(config.characters, config.embedding))
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.embedding, count, span) for span, count in config.filters
        )
        self.activation = {"relu": torch.relu, "tanh": torch.tanh}[config.activation]
        self.highways = nn.ModuleList(Highway(config.width) for _ in range(config.highways))
        self.projection = nn.Linear(config.width, width) if config.projection else nn.Identity()

    def forward(self, ids: Tensor) -> Tensor:
        """Map (words, characters) ids to (words, P).

        Convolutions and maximum see the padding characters too: their vector is learnt, not zero.
        """
        letters = functional.embedding(ids, self.characters).transpose(1, 2)
        # max first: both activations rise, so they commute with it and meet fewer numbers
        peaks = [convolution(letters).amax(dim=2) for convolution in self.convolutions]
        vectors = self.activation(torch.cat(peaks, dim=1))
        for highway in self.highways:
            vectors = highway(vectors)
        projected: Tensor = self.projection(vectors)
        return projected
