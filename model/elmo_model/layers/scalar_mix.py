"""The scalar mix: one vector a token out of those of all layers."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

_EPSILON = 1e-13  # AllenNLP's; bilm-tf has 1e-12


def mix(layers: Tensor, weights: Tensor, gamma: float | Tensor) -> Tensor:
    """Map (L + 1, N, width) to (N, width): gamma times the weighted sum of the layers.

    `weights` are normalised already: (L + 1,), or (L + 1, N) with a column for each token, so that
    sentences of different tasks share a batch; `gamma` is one number or (N,).
    """
    columns = weights.unsqueeze(1) if weights.dim() == 1 else weights
    total = columns[0].unsqueeze(1) * layers[0]
    for column, layer in zip(columns[1:], layers[1:], strict=True):
        total = total + column.unsqueeze(1) * layer
    if isinstance(gamma, Tensor) and gamma.dim() == 1 and len(gamma) > 1:
        gamma = gamma.unsqueeze(1)
    return gamma * total


def normalise(weights: Tensor | Sequence[float]) -> Tensor:
    """Map L + 1 raw scalars, along the first axis, to weights that sum to 1: a softmax."""
    return torch.softmax(torch.as_tensor(weights, dtype=_float_type(weights)), dim=0)


def layer_norm(layers: Tensor) -> Tensor:
    """Map (L + 1, n, width) of one sentence, boundaries included, to the same, normalised.

    One mean and one variance a layer, over all its tokens and features together, not a token
    (AllenNLP `scalar_mix.py`, which takes them over the whole batch: the answer to one sentence
    would depend on its company).
    """
    mean = layers.mean(dim=(1, 2), keepdim=True)
    centred = layers - mean
    variance = centred.square().mean(dim=(1, 2), keepdim=True)
    return centred / torch.sqrt(variance + _EPSILON)


class ScalarMix(nn.Module):
    """A trainable mix of `layers` layers: raw `weights`, zero at first, and `gamma`, one at first.

    `initial` gives other raw weights; without `trainable` these and gamma stay as they are.
    """

    def __init__(
        self,
        layers: int,
        *,
        layer_norm: bool = False,
        initial: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        if initial is not None and len(initial) != layers:
            raise ValueError(f"initial has {len(initial)} weights, expected {layers}")
        start = torch.zeros(layers) if initial is None else torch.tensor([*map(float, initial)])
        self.weights = nn.Parameter(start, requires_grad=trainable)
        self.gamma = nn.Parameter(torch.ones(1), requires_grad=trainable)
        self.layer_norm = layer_norm

    def forward(self, layers: Tensor) -> Tensor:
        """Map (L + 1, N, width) to (N, width).

        With layer norm the statistics are those of the N tokens given: one sentence with its
        boundaries as the service has it, or a whole batch as AllenNLP trains.
        """
        normed = layer_norm(layers) if self.layer_norm else layers
        return mix(normed, normalise(self.weights), self.gamma)


def _float_type(weights: Tensor | Sequence[float]) -> torch.dtype:
    kept = isinstance(weights, Tensor) and weights.is_floating_point()
    return weights.dtype if isinstance(weights, Tensor) and kept else torch.float32
