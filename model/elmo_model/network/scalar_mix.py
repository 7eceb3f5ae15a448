"""The scalar mix: one vector a token, computed from the vectors of all layers."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

EPSILON = 1e-13  # AllenNLP's; bilm-tf has 1e-12


def mix(layers: Tensor, weights: Tensor, gamma: float | Tensor) -> Tensor:
    """Map (L + 1, N, width) to (N, width): gamma times the weighted sum of the layers.

    `weights` are already normalised: (L + 1,), or (L + 1, N) with a column for each token, so that
    sentences of different tasks can share a batch. `gamma` is one number or (N,).
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
    raw = torch.as_tensor(weights)
    return torch.softmax(raw if raw.is_floating_point() else raw.float(), dim=0)


def layer_norm(layers: Tensor) -> Tensor:
    """Map (L + 1, n, width) of one sentence, boundaries included, to the same, normalised.

    Each layer has one mean and one variance, over all tokens and features of the sentence. AllenNLP
    (`scalar_mix.py`) takes them over the whole batch, which would make the vectors of a sentence
    depend on the other sentences of its batch.
    """
    mean = layers.mean(dim=(1, 2), keepdim=True)
    centred = layers - mean
    variance = centred.square().mean(dim=(1, 2), keepdim=True)
    return centred / torch.sqrt(variance + EPSILON)


class ScalarMix(nn.Module):
    """A trainable mix, AllenNLP's `ScalarMix`: L + 1 raw scalars, each a parameter, and gamma."""

    def __init__(
        self, layers: int, scalars: Sequence[float] | None = None, *, layer_norm: bool = False
    ) -> None:
        """Begin with zeros, or with raw `scalars`, one for each of the `layers` layers, L + 1."""
        super().__init__()
        values = [0.0] * layers if scalars is None else list(scalars)
        if len(values) != layers:
            raise ValueError(f"scalar_mix_parameters are {len(values)}, expected {layers}")
        self.scalar_parameters = nn.ParameterList(
            nn.Parameter(torch.tensor([float(value)])) for value in values
        )
        self.gamma = nn.Parameter(torch.ones(1))
        self._layer_norm = layer_norm

    @property
    def weights(self) -> Tensor:
        """The raw scalars, (L + 1,)."""
        return torch.cat(list(self.scalar_parameters))

    def forward(self, layers: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map (L + 1, ..., width) to (..., width); a layer norm is over the tokens of `mask`."""
        if self._layer_norm:
            layers = _normed(layers, mask)
        return mix(layers.flatten(1, -2), normalise(self.weights), self.gamma).view(
            layers.shape[1:]
        )


def _normed(layers: Tensor, mask: Tensor | None) -> Tensor:
    """Map (L + 1, ..., width) to the same, each layer normalised over all tokens of the batch."""
    tokens = layers.flatten(1, -2) if mask is None else layers[:, mask]  # (L + 1, N, width)
    mean = tokens.mean(dim=(1, 2), keepdim=True)
    variance = (tokens - mean).square().mean(dim=(1, 2), keepdim=True)
    shape = (-1, *[1] * (layers.dim() - 1))
    return (layers - mean.view(shape)) / torch.sqrt(variance.view(shape) + EPSILON)
