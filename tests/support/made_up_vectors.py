"""Made-up vectors of three layers, sentences whose labels layer 1 alone tells apart, and a fit."""

import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from elmo_model.tasks.comparison import split
from elmo_model.tasks.examples import Examples
from elmo_model.tasks.features import features_of
from elmo_model.tasks.fitter import FitOptions, Fitted, fit_once

WIDTH = 8


def layers_of(sentence: Sequence[str]) -> Tensor:
    """Map words to vectors of which layer 1 alone tells the words apart; layer 0 and 2 are noise.

    The vectors of a sentence depend on that sentence alone.
    """
    seed = zlib.crc32(" ".join(sentence).encode())
    layers = np.random.default_rng(seed).normal(size=(3, len(sentence) + 2, WIDTH))[:, 1:-1]
    for place, word in enumerate(sentence):
        layers[1, place, : ord(word[0]) % 3 + 1] += 3
    return torch.from_numpy(layers.astype(np.float32))


def encode(sentences: Sequence[Sequence[str]]) -> Iterator[tuple[int, Tensor]]:
    """Yield the layers of `layers_of`, the last sentence first."""
    for number in reversed(range(len(sentences))):
        yield number, layers_of(sentences[number])


def learned(examples: Examples) -> Fitted:
    """Fit the learned mixture on a part of some examples, and score it on the others."""
    options = FitOptions()
    kept, held = split(examples, options.validation, seed=0)
    with features_of(encode, examples) as features:
        return fit_once(features.take(kept), features.take(held), options, "accuracy", seed=0)


def tagged(count: int, seed: int) -> Examples:
    """Return `count` sentences of four words; the label of a word is its first letter."""
    source = np.random.default_rng(seed)
    words = ["a", "b", "c"]
    sentences = [[words[n] + str(source.integers(99)) for n in source.integers(3, size=4)]
                 for _ in range(count)]  # fmt: skip
    return Examples.of_tokens((s, [f"is-{word[0]}" for word in s]) for s in sentences)
