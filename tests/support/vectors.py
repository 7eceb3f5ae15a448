"""Sentences, the vectors that a selection of layers means, and the comparison of all tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_model.network.elmo import ElmoNetwork
from tests.support.reference import scalar_mix

Array = NDArray[Any]

WORDS = [f"word{number}" for number in range(500)]

TOLERANCES = {"float32": 1e-5, "float16": 1e-3}
"""Largest difference, relative to the largest number of the sentence."""


def sentences_of(count: int, longest: int = 14) -> list[list[str]]:
    """Return the same random sentences of 1 to `longest` words on every call."""
    generator = np.random.default_rng(7)
    return [
        [WORDS[i] for i in generator.integers(0, len(WORDS), generator.integers(1, longest + 1))]
        for _ in range(count)
    ]


def layers_of(elmo: ElmoNetwork, sentences: Sequence[Sequence[str]]) -> list[Array]:
    """Return all layers (L + 1, n, 2P) of each sentence, computed by the network itself."""
    return [each.numpy() for each in elmo.embed(sentences)]


def selected(bounded: Array, options: dict[str, Any]) -> Array:
    """Map all layers (L + 1, n + 2, 2P) to the vectors for the fields of a request, in float64."""
    layers: Array = bounded.astype(np.float64)
    if options.get("mix") is not None:
        layers = scalar_mix(layers, **options["mix"])
    else:
        layers = _layers(layers, options.get("layers", "all"))
    vectors = _pooled(layers[..., 1:-1, :], options.get("pooling", "none"))
    return _at_length_1(vectors) if options.get("normalize") else vectors


def difference(found: Any, expected: Array, dtype: str = "float32") -> float:
    """Return the largest difference of a sentence in units of the tolerance: above 1 it is wrong.

    Another shape or number format is infinitely far away.
    """
    if found.shape != expected.shape or found.dtype.name != dtype:
        return float("inf")
    if not found.size:
        return 0.0
    allowed = TOLERANCES[dtype] * float(np.abs(expected).max())
    furthest = float(np.abs(found - expected).max())
    if allowed == 0:  # an empty sentence pools to zeros
        return 0.0 if furthest == 0 else float("inf")
    return furthest / allowed if np.isfinite(furthest) else float("inf")


def close(found: Any, expected: Array, dtype: str = "float32") -> None:
    """Compare the vectors of one sentence."""
    assert difference(found, expected, dtype) <= 1, (found.shape, expected.shape, found.dtype.name)


def all_close(found: Any, expected: Sequence[Array] | Array, dtype: str = "float32") -> None:
    """Compare the vectors of sentences, in their order."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        close(one, other, dtype)


def _layers(layers: Array, wanted: str | int | list[int]) -> Array:
    match wanted:
        case "all":
            return layers
        case "top":
            return np.asarray(layers[-1])
        case "average":
            return np.asarray(layers.mean(0))
        case "sum":
            return np.asarray(layers.sum(0))
        case "concat":
            return np.concatenate(layers, axis=1)
        case _:
            return np.asarray(layers[wanted])


def _at_length_1(vectors: Array) -> Array:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0))


def _pooled(vectors: Array, pooling: str) -> Array:
    if pooling == "none":
        return vectors
    if not vectors.shape[-2]:
        return np.zeros((*vectors.shape[:-2], vectors.shape[-1]))
    pooled: Array = vectors.mean(-2) if pooling == "mean" else vectors.max(-2)
    return pooled
