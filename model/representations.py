"""What the network answers."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Representations:
    """The vectors of all layers for several sentences.

    `layers` is (L + 1, N, 2P): the sentences one after another, each with its two boundary tokens;
    `lengths` are the tokens of each, the boundaries included, N together.
    """

    layers: Tensor
    lengths: tuple[int, ...]

    def sentences(self) -> list[Tensor]:
        """Return a view (L + 1, n + 2, 2P) of each sentence."""
        return list(torch.split(self.layers, list(self.lengths), dim=1)) if self.lengths else []
