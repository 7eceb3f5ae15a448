"""The character CNN: the character ids of a word to its vector, without context."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_model.network.config import CharCNNConfig


class Highway(nn.Module):
    """One highway layer (Srivastava et al. 2015) in the convention of bilm-tf.

    The gate called `carry` multiplies the transformed branch, against its name; AllenNLP's modules
    hold the negative of it. The transform is always a ReLU, whatever the activation of the CNN.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.carry = nn.Linear(width, width)
        self.transform = nn.Linear(width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (words, width) to (words, width)."""
        gate = torch.sigmoid(self.carry(inputs))
        return torch.lerp(inputs, functional.relu(self.transform(inputs)), gate)


class CharCNN(nn.Module):
    """Characters, convolutions of several widths, maximum over positions, highways, projection.

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
        """Map ids (words, characters) to (words, P).

        Convolutions and maximum see the padding characters of a word too, as in bilm-tf: the vector
        of a padding character is learnt and not zero.
        """
        letters = functional.embedding(ids, self.characters)  # (words, characters, embedding)
        letters = letters.transpose(1, 2)  # (words, embedding, characters)
        # The activation rises, so it commutes with the maximum; after it there are fewer numbers.
        peaks = [_highest(convolution(letters)) for convolution in self.convolutions]
        vectors = self.activation(torch.cat(peaks, dim=1))  # (words, F)
        for highway in self.highways:
            vectors = highway(vectors)
        projected: Tensor = self.projection(vectors)  # (words, P)
        return projected


def _highest(values: Tensor) -> Tensor:
    """Map (words, filters, positions) to (words, filters): the maximum over positions."""
    if torch.is_grad_enabled():
        # keeps the place of the maximum, for which the backward pass of amax would have to search
        return values.max(dim=2).values
    return values.amax(dim=2)
