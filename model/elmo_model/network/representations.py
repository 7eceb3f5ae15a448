"""The vectors of a batch of sentences."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Representations:
    """The vectors of all layers for several sentences.

    `layers` is (L + 1, N, 2P): the sentences one after another. `lengths` are the tokens of each
    sentence, N in all. With `bounded` each sentence has its two boundary tokens, which count.
    """

    layers: Tensor
    lengths: tuple[int, ...]
    bounded: bool

    def sentences(self) -> list[Tensor]:
        """Return a view (L + 1, n, 2P) of each sentence, with its boundaries when `bounded`."""
        return list(torch.split(self.layers, list(self.lengths), dim=1)) if self.lengths else []

    @property
    def inside(self) -> slice:
        """The tokens of a sentence without boundaries, on the token axis of such a view."""
        return slice(1, -1) if self.bounded else slice(None)
