"""The softmax of a language model as a value: the output layer that both directions share."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from elmo_model.text.alphabets import WordVocabulary


@dataclass(frozen=True, slots=True, eq=False)
class WordSoftmax:
    """The output layer that both directions share: `weight` (V, P) and `bias` (V,).

    `vocabulary` names the V rows. `total` is their number before any cut. `weight` is float32, or
    int8 to be multiplied by `scale` (V,); the rest is float32.
    """

    weight: Tensor
    bias: Tensor
    vocabulary: WordVocabulary
    total: int
    scale: Tensor | None = None

    def rows(self, which: slice | Tensor) -> Tensor:
        """Return some rows (n, P) as float32; a slice of float32 is a view."""
        rows = self.weight[which].float()
        return rows if self.scale is None else rows * self.scale[which][:, None]

    def to(self, device: torch.device) -> "WordSoftmax":
        """Return it on a device."""
        scale = None if self.scale is None else self.scale.to(device)
        weight, bias = self.weight.to(device), self.bias.to(device)
        return replace(self, weight=weight, bias=bias, scale=scale)
