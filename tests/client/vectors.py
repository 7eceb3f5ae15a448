"""Sentences, and the vectors that the network itself computes for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from elmo_model.network.elmo import ElmoNetwork

SENTENCES = [["The", "cat", "sat", "."], [], ["", "Zürich", "x" * 60], ["a", "b"]]
WORDS = ["The", "naïve", "東京", "cat", "sat", "on", "a", "mat", ".", ""]


def many(count: int, longest: int = 9) -> list[list[str]]:
    """Return `count` sentences of 0 to `longest` words."""
    generator = np.random.default_rng(count)
    return [
        [WORDS[i] for i in generator.integers(0, len(WORDS), generator.integers(0, longest + 1))]
        for _ in range(count)
    ]


def every_layer(elmo: ElmoNetwork, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
    return [layers.numpy() for layers in elmo.embed(sentences)]


def assert_close(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
