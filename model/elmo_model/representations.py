"""What the network answers."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Representations:
    """The vectors of all layers for several sentences.

    `layers` is (L + 1, N, 2P): the sentences one after another; `lengths` are the tokens of each, N
    together. `bounded` says whether each has its two boundary tokens, which then count.
    """

    layers: Tensor
    lengths: tuple[int, ...]
    bounded: bool

    def sentences(self) -> list[Tensor]:
        """Return a view (L + 1, n, 2P) of each sentence, boundaries included where they are."""
        return list(torch.split(self.layers, list(self.lengths), dim=1)) if self.lengths else []

    @property
    def inside(self) -> slice:
        """Where the tokens of a sentence's own lie in such a view."""
        return slice(1, -1) if self.bounded else slice(None)
