"""The model that is fitted: a scalar mix of the layers and a linear head."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_model.network.scalar_mix import ScalarMix


class MixtureHead(nn.Module):
    """gamma * sum_j softmax(s)_j h_j, then dropout, then one linear map to the classes.

    A pair of vectors u, v becomes (u, v, |u - v|, u * v) before the linear map (Conneau et al.
    2017, InferSent). Layers are normalised before, where the task has layer norm. With static word
    vectors x of width `static` the mixed vector m becomes [m; x] first.
    """

    def __init__(
        self,
        layers: int,
        dimension: int,
        classes: int,
        *,
        places: int = 1,
        dropout: float = 0.0,
        gamma: float = 1.0,
        static: int = 0,
    ) -> None:
        """`gamma` is the initial scale: one over the deviation of the vectors converges fast."""
        super().__init__()
        self.mix = ScalarMix(layers)
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear((dimension + static) * (1 if places == 1 else 4), classes)
        with torch.no_grad():
            self.mix.gamma.fill_(gamma)
            self.linear.weight.zero_()
            self.linear.bias.zero_()

    def forward(self, layers: Tensor, static: Tensor | None = None) -> Tensor:
        """Map (L + 1, n, places, 2P) and (n, places, W) to the logits (n, classes)."""
        count, rows, places, width = layers.shape
        mixed = self.mix(layers.reshape(count, rows * places, width)).view(rows, places, width)
        if static is not None:
            mixed = torch.cat((mixed, static), dim=2)
        logits: Tensor = self.linear(self.dropout(joined(mixed)))
        return logits

    def loss(
        self, layers: Tensor, labels: Tensor, l2_weights: float, static: Tensor | None = None
    ) -> Tensor:
        """Return the mean cross-entropy plus `l2_weights` times the squared norm of s.

        The penalty draws the weights to the average of all layers (Peters et al. 2018, 3.3).
        """
        penalty = l2_weights * self.mix.weights.square().sum()
        return functional.cross_entropy(self(layers, static), labels) + penalty


def joined(mixed: Tensor) -> Tensor:
    """Map (n, 1, 2P) to (n, 2P), and pairs (n, 2, 2P) to (n, 8P)."""
    if mixed.shape[1] == 1:
        return mixed[:, 0]
    first, second = mixed[:, 0], mixed[:, 1]
    return torch.cat((first, second, (first - second).abs(), first * second), dim=1)


def initial_gamma(deviation: float) -> float:
    """Return the scale that gives vectors of this standard deviation a deviation of 1."""
    return 1 / deviation if math.isfinite(deviation) and deviation > 1e-6 else 1.0
