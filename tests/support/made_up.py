"""Made-up vectors: of tagged sentences for a fit, and of an index of uses."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.tasks.comparison import split
from elmo_model.tasks.examples import Examples
from elmo_model.tasks.features import features_of
from elmo_model.tasks.fitter import FitOptions, Fitted, fit_once
from elmo_model.uses.files import open_index
from elmo_model.uses.index import IndexInfo, UsesIndex
from elmo_model.uses.indexing import write_index

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


LAYERS = 3
DESCRIPTION = IndexInfo("made up", "tiny", "abc", LAYERS, WIDTH, "whitespace")


class MadeUp:
    """A network whose layer 0 is by the word, and the others by the word and its place as well."""

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        return [torch.from_numpy(self.layers(sentence)) for sentence in sentences]

    @staticmethod
    def layers(sentence: Sequence[str]) -> NDArray[np.float32]:
        """Return the layers (L + 1, n, 2P) of a sentence."""
        rows = [[_random(f"0 {word}") for word in sentence]]
        rows += [
            [
                _random(f"0 {word}") + _random(f"{layer} {place} {sentence}")
                for place, word in enumerate(sentence)
            ]
            for layer in range(1, LAYERS)
        ]
        return np.array(rows, np.float32).reshape(LAYERS, len(sentence), WIDTH)


@cache
def _random(key: str) -> NDArray[np.float64]:
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng(list(digest)).standard_normal(WIDTH) * 2 + 1


def made_up_index(
    folder: Path,
    sentences: Sequence[Sequence[str]],
    lines: Sequence[int] | None = None,
    revision: str = DESCRIPTION.revision,
) -> UsesIndex:
    """Write the index of some sentences by the made-up network, and open it."""
    info = replace(DESCRIPTION, revision=revision)
    write_index(MadeUp(), sentences, folder, info, 4_000, lines=lines)
    return open_index(folder)
