"""How close the vectors of an encoder are to those of another network."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

_SENTENCE = ("The", "quick", "brown", "fox", "walked", "along", "the", "bank", "in", "1987", ".")
_TEXT = [
    words[start:] + words[:start]
    for words in (_SENTENCE, _SENTENCE[::-1])
    for start in range(len(_SENTENCE))
]


class Network(Protocol):
    """A network that computes all layers of a batch: an `Encoder` or an `ElmoNetwork`."""

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Map each sentence of n tokens to its layers (L + 1, n, 2P), without boundaries."""


def sample(network: Network) -> Tensor:
    """Return the vectors (L + 1, N, 2P) of a fixed text."""
    return torch.cat(network.embed(_TEXT), dim=1)


def furthest(found: Tensor, expected: Tensor) -> tuple[int, float]:
    """Return the layer with the least mean cosine between two samples, and that cosine."""
    cosines = torch.cosine_similarity(found, expected, dim=2).mean(dim=1).nan_to_num(-1.0)
    layer = int(cosines.argmin())
    return layer, float(cosines[layer])
