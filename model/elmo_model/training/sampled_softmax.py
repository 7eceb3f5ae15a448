"""The softmax over words: sampled while training, over all words otherwise."""

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from elmo_model.network.softmax import WordSoftmax
from elmo_model.text.alphabets import WordVocabulary

LOGITS = 1 << 26
"""Logits held at once. More means fewer, larger products, and the full softmax is bound by memory.
"""
SAMPLED = {"cpu": 1 << 18}
"""Those of the sampled softmax on a kind of device: on a CPU they should stay in the cache."""
_NEVER = torch.finfo(torch.float32).min  # logit of probability 0; -inf would give NaN gradients


class Softmax(nn.Module):
    """The output layer that both directions share: weights (V, P) and a bias per word."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(words, width))
        self.bias = nn.Parameter(torch.empty(words))

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> "Softmax":
        """Initialise in place as bilm-tf does: normal with variance 1 / P, bias zero."""
        self.weight.normal_(0, math.sqrt(1 / self.weight.shape[1]), generator=generator)
        self.bias.zero_()
        return self

    @torch.no_grad()
    def bias_from(self, counts: Tensor) -> None:
        """Set the biases to the logarithms of the words' shares of V counts, in place.

        A network that adds nothing then has the perplexity of the unigram model. A word without an
        occurrence counts as half of one.
        """
        occurrences = counts.double().clamp(min=0.5)
        self.bias.copy_((occurrences / occurrences.sum()).log())

    @torch.no_grad()
    def take_over(self, known: WordSoftmax, vocabulary: WordVocabulary) -> None:
        """Take the rows and biases of the words that another softmax knows, in place."""
        words = set(known.vocabulary.words)
        shared = torch.tensor([word in words for word in vocabulary.words])
        rows = torch.from_numpy(known.vocabulary.word_ids(vocabulary.words))[shared]
        self.weight[shared] = known.rows(rows)
        self.bias[shared] = known.bias[rows]

    def full(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Map (N, P) and N target words to N negative log probabilities over all words."""
        rows = max(1, LOGITS // len(self.weight))
        # autocast would keep its copy for the other direction, whose queue does not wait for it
        layer = self.weight.to(inputs.dtype), self.bias.to(inputs.dtype)
        if len(inputs) <= rows:
            return _full(inputs, targets, *layer)
        parts = zip(torch.split(inputs, rows), torch.split(targets, rows), strict=True)
        # recomputed in the backward pass, so that only one part's logits are in memory; the state
        # of random numbers, of which there are none, cannot be read in a CUDA graph
        again = partial(checkpoint, _full, use_reentrant=False, preserve_rng_state=False)
        return torch.cat([again(*part, *layer) for part in parts])

    def sampled(self, inputs: Tensor, targets: Tensor, candidates: Tensor, tries: Tensor) -> Tensor:
        """Map (N, P) and N target words to N losses against S sampled words.

        `tries` is the number of draws that gave the S distinct `candidates`.
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


def _full(inputs: Tensor, targets: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    logits = functional.linear(inputs, weight, bias)
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

    Each logit is lowered by the logarithm of its word's expected count among the candidates. A
    candidate that is the target of a row has probability 0 in that row (Jean et al. 2015;
    TensorFlow `sampled_softmax_loss`).
    """
    # One look-up of all rows has one gradient of the size of the vocabulary, two would have two.
    count, rows = len(targets), torch.cat((targets, candidates))
    vectors, biases = functional.embedding(rows, weight), bias[rows]
    own = _at_least_float((inputs * vectors[:count]).sum(dim=1))
    own = own + biases[:count] - target_counts.log()
    device, dtype = inputs.device.type, inputs.dtype
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    places = torch.full((len(weight),), -1, device=weight.device)
    places[candidates] = torch.arange(len(candidates), device=weight.device)
    others = _LogSumExp.apply(  # type: ignore[no-untyped-call]
        inputs.to(dtype),
        vectors[count:].to(dtype),
        biases[count:] - candidate_counts.log(),
        places[targets],
        SAMPLED.get(device, LOGITS),
    )
    return torch.logaddexp(own, others) - own


class _LogSumExp(torch.autograd.Function):
    """Map (N, P), weights (S, P), biases (S,) and N places to (N,): log-sum-exp of the logits.

    A place is the column whose logit is left out of its row, -1 for none. The softmax of the
    logits, which is their gradient, is computed in the same pass, a few rows at a time, while the
    logits are in the cache.
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, places: Tensor, held: int
    ) -> Tensor:
        count, size = len(inputs), len(weight)
        probabilities = inputs.new_empty(count, size)
        sums = bias.new_empty(count)
        rows = max(1, min(count, held // size))
        room = bias.new_empty(rows, size)
        columns = weight.t()
        with torch.autocast(inputs.device.type, enabled=False):
            for start in range(0, count, rows):
                here = slice(start, start + rows)
                part, own = probabilities[here], places[here]
                logits = torch.add(torch.mm(inputs[here], columns), bias, out=room[: len(part)])
                logits.scatter_(
                    1,
                    own.clamp(min=0).unsqueeze(1),
                    torch.where(own < 0, logits[:, 0], _NEVER).unsqueeze(1),
                )
                highest = logits.amax(dim=1, keepdim=True)
                total = logits.sub_(highest).exp_().sum(dim=1, keepdim=True)
                torch.mul(logits, total.reciprocal(), out=part)
                sums[here] = (total.log_() + highest).squeeze(1)
        ctx.save_for_backward(inputs, weight, probabilities)
        return sums

    @staticmethod
    def backward(ctx: Any, d_sums: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight, probabilities = ctx.saved_tensors
        scale = d_sums.to(inputs.dtype).unsqueeze(1)
        width = inputs.shape[1]
        scaled = torch.cat((inputs * scale, scale), dim=1)
        if scaled.device.type != "cpu":  # a GPU's fast products have multiples of 8 columns
            scaled = functional.pad(scaled, (0, -scaled.shape[1] % 8))
        d_weight = probabilities.t() @ scaled
        return (
            (probabilities @ weight) * scale,
            d_weight[:, :width],
            d_weight[:, width].to(d_sums.dtype),
            None,
            None,
        )


def expected_count(words: Tensor, tries: Tensor, size: int) -> Tensor:
    """Map word numbers to their expected counts among candidates found in `tries` draws."""
    rank = words.double()
    chance = ((rank + 2) / (rank + 1)).log() / math.log(size + 1)
    return (-torch.expm1(tries * torch.log1p(-chance))).float()


def draw_candidates(
    count: int, size: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], int]:
    """Draw `count` distinct words below `size`, log-uniformly; return them and the draws made.

    Word k has the probability ln((k + 2) / (k + 1)) / ln(size + 1): Zipf's law for words in
    descending order of frequency. Raises ValueError unless 0 < count < size.
    """
    if not 0 < count < size:
        raise ValueError(f"candidates are {count}, expected from 1 to {size - 1}, the words less 1")
    draws = np.zeros(0, dtype=np.int64)
    while True:
        # later draws than those that are needed change nothing; fewer would take a second round
        more = generator.random(max(4 * count, len(draws)))
        fresh = np.exp(more * math.log(size + 1)).astype(np.int64) - 1
        draws = np.concatenate((draws, np.minimum(fresh, size - 1)))
        order, first = np.arange(len(draws)), np.empty(size, dtype=np.int64)
        first[draws[::-1]] = order[::-1]  # of equal indices the last write wins: the earliest draw
        distinct = np.flatnonzero(first[draws] == order)[:count]
        if len(distinct) == count:
            return draws[distinct], int(distinct[-1]) + 1


def _at_least_float(values: Tensor) -> Tensor:
    return values if values.dtype == torch.float64 else values.float()
