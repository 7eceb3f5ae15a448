"""How close an encoder is to float32, and the choice of a precision by trial."""

import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

import torch
from torch import Tensor

from elmo_model.inference.precision import PRECISIONS, Precision

_CLOSE: Final = 0.9999
"""The least mean cosine with float32, in each layer, of a precision that may be chosen."""

_RUNS: Final = 5
"""Runs of which the fastest counts; more are less likely to be disturbed by another process."""

_SENTENCE = ("The", "quick", "brown", "fox", "walked", "along", "the", "bank", "in", "1987", ".")
_ALONE = [_SENTENCE]
# 22 sentences: batches under load have some tens
_TEXT = [
    words[start:] + words[:start]
    for words in (_SENTENCE, _SENTENCE[::-1])
    for start in range(len(_SENTENCE))
]


class Network(Protocol):
    """A network that computes all layers of a batch: an `Encoder` or an `Elmo`."""

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Map each sentence of n tokens to its layers (L + 1, n, 2P), without boundaries."""


NetworkT = TypeVar("NetworkT", bound=Network)


def sample(network: Network) -> Tensor:
    """Return the vectors (L + 1, N, 2P) of a fixed text."""
    return torch.cat(network.embed(_TEXT), dim=1)


def furthest(found: Tensor, expected: Tensor) -> tuple[int, float]:
    """Return the layer with the least mean cosine between two samples, and that cosine."""
    cosines = torch.cosine_similarity(found, expected, dim=2).mean(dim=1).nan_to_num(-1.0)
    layer = int(cosines.argmin())
    return layer, float(cosines[layer])


def fastest(
    build: Callable[[Precision], NetworkT], clock: Callable[[], float] = time.perf_counter
) -> NetworkT:
    """Build a network in each precision; return the fastest that is close to float32.

    Precisions that `build` refuses with a ValueError are left out. Time is that of one sentence
    times that of some tens, so that twice the speed of either counts the same.
    """
    best = build("float32")
    expected, least = sample(best), _seconds(best, clock)
    for precision in PRECISIONS[1:]:  # all others
        try:
            network = build(precision)
        except ValueError:  # this device or these weights
            continue
        _, cosine = furthest(sample(network), expected)
        if cosine >= _CLOSE and (seconds := _seconds(network, clock)) < least:
            best, least = network, seconds
    return best


def _seconds(network: Network, clock: Callable[[], float]) -> float:
    """Return the product of the times of one sentence and of some tens, in square seconds."""
    product = 1.0
    for sentences in (_ALONE, _TEXT):
        times = []
        for _ in range(_RUNS):
            start = clock()
            network.embed(sentences)[0].cpu()  # waits for a device that computes asynchronously
            times.append(clock() - start)
        product *= min(times)
    return product
