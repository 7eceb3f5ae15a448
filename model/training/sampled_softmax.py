"""The softmax over words: a few sampled ones while training, all of them otherwise."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

LOGITS = 1 << 26  # numbers of a full softmax that are held at once
_NEVER = torch.finfo(torch.float32).min  # a logit of no weight; infinity would have no gradient


class Softmax(nn.Module):
    """The output layer that both directions share: (V, P) weights and a bias for each word."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(words, width))
        self.bias = nn.Parameter(torch.empty(words))

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> "Softmax":
        """Fill in place as bilm-tf does: normal of variance 1 / P, bias zero."""
        self.weight.normal_(0, math.sqrt(1 / self.weight.shape[1]), generator=generator)
        self.bias.zero_()
        return self

    def full(self, inputs: Tensor, targets: Tensor, held: int = LOGITS) -> Tensor:
        """Map (N, P) and the N target words to their N negative log probabilities.

        No more than `held` numbers of the softmax are in memory at once.
        """
        rows = max(1, held // len(self.weight))
        if len(inputs) <= rows:
            return self._full(inputs, targets)
        parts = zip(torch.split(inputs, rows), torch.split(targets, rows), strict=True)
        return torch.cat(
            # logits of later parts would push out those of earlier ones; they are made again
            [checkpoint(self._full, *part, use_reentrant=False) for part in parts]
        )

    def sampled(self, inputs: Tensor, targets: Tensor, candidates: Tensor, tries: Tensor) -> Tensor:
        """Map (N, P) and the N target words to their N losses against S sampled words.

        `tries` is how many draws it took to find the S distinct `candidates`.
        """
        words = len(self.weight)
        return sampled_loss(
            inputs,
            targets,
            self.weight,
            self.bias,
            candidates,
            expected_count(targets, tries, words),
            expected_count(candidates, tries, words),
        )

    def _full(self, inputs: Tensor, targets: Tensor) -> Tensor:
        logits = functional.linear(inputs, self.weight, self.bias)
        return functional.cross_entropy(_at_least_float(logits), targets, reduction="none")


def sampled_loss(
    inputs: Tensor,
    targets: Tensor,
    weight: Tensor,
    bias: Tensor,
    candidates: Tensor,
    target_counts: Tensor,
    candidate_counts: Tensor,
) -> Tensor:
    """Map (N, P) and N target words to (N,): cross-entropy of the target among the candidates.

    Each logit is lowered by the logarithm of how often its word was to be expected among the
    candidates; a candidate that is a row's own target counts for nothing there (Jean et al. 2015;
    TensorFlow `sampled_softmax_loss`).
    """
    own = _at_least_float((inputs * functional.embedding(targets, weight)).sum(dim=1))
    own = own + bias[targets] - target_counts.log()
    others = _at_least_float(functional.linear(inputs, weight[candidates]))
    others = others + (bias[candidates] - candidate_counts.log())
    others = others.masked_fill(targets.unsqueeze(1) == candidates, _NEVER)
    return torch.logaddexp(own, others.logsumexp(dim=1)) - own


def expected_count(words: Tensor, tries: Tensor, size: int) -> Tensor:
    """Map words to how often each is to be expected among candidates found in `tries` draws."""
    rank = words.double()
    chance = ((rank + 2) / (rank + 1)).log() / math.log(size + 1)
    return (-torch.expm1(tries * torch.log1p(-chance))).float()


def draw_candidates(
    count: int, size: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], int]:
    """Draw `count` distinct words below `size` by the log-uniform law, and say how often it drew.

    The law gives word k the chance ln((k + 2) / (k + 1)) / ln(size + 1): Zipf's, for words ranked
    by frequency. Raises ValueError unless there are more words than candidates.
    """
    if not 0 < count < size:
        raise ValueError(f"candidates are {count}, expected from 1 to {size - 1}, the words less 1")
    draws = np.zeros(0, dtype=np.int64)
    while True:
        more = generator.random(max(2 * count, len(draws)))
        fresh = np.exp(more * math.log(size + 1)).astype(np.int64) - 1
        draws = np.concatenate((draws, np.minimum(fresh, size - 1)))
        first = np.full(size, len(draws), dtype=np.int64)
        # of equal words the last that is written wins: the earliest draw
        first[draws[::-1]] = np.arange(len(draws))[::-1]
        seen = first[first < len(draws)]
        if len(seen) >= count:
            tries = int(np.partition(seen, count - 1)[count - 1]) + 1
            return draws[np.sort(seen[seen < tries])], tries


def _at_least_float(values: Tensor) -> Tensor:
    return values if values.dtype == torch.float64 else values.float()
