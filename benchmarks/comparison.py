"""A request of the load generator, and the comparison of its responses with the first one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import orjson
import safetensors.numpy
from numpy.typing import NDArray

from elmo_serve.http.media_types.encoder import MEDIA_TYPES

TOLERANCES = {"float32": 1e-5, "float16": 1e-3}
"""Largest difference of a right response, relative to the largest value of the first one."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to POST /embed: its JSON, its tokens, and the media type of the response.

    `difference` maps a response to its largest difference in tolerances: above 1 it is wrong. None:
    there is nothing to compare it with.
    """

    content: bytes
    tokens: int
    media_type: str
    difference: Callable[[bytes], float | None]


class Reference:
    """Compares each response with the first one to the same body, in safetensors."""

    def __init__(self) -> None:
        self._first: dict[bytes, bytes] = {}

    def request(self, body: bytes) -> Request:
        """Return the request with a body, which is a JSON object."""
        members = orjson.loads(body)
        texts = members.get("sentences") or members.get("text") or ()
        tokens = sum(len(text.split() if isinstance(text, str) else text) for text in texts)
        return Request(body, tokens, MEDIA_TYPES["safetensors"], partial(self.difference, body))

    def difference(self, body: bytes, content: bytes) -> float | None:
        """Return the largest difference in tolerances; infinite for other shapes or no vectors."""
        first = self._first.get(body)
        if content == first:
            return 0.0
        vectors = _vectors(content)
        if not vectors:
            return math.inf
        if first is None:
            self._first[body] = content
            return None
        expected = _vectors(first)
        if [each.shape for each in vectors] != [each.shape for each in expected]:
            return math.inf
        furthest = max(map(_largest, map(np.subtract, vectors, expected)))
        allowed = TOLERANCES[expected[0].dtype.name] * max(map(_largest, expected))
        return furthest / allowed if allowed else math.inf if furthest else 0.0


def _vectors(content: bytes) -> list[NDArray[Any]]:
    """Return the vectors of a response; none where it is damaged or a number is not finite."""
    try:
        arrays = [each for _, each in sorted(safetensors.numpy.load(content).items())]
    except Exception:  # the reader has errors of its own
        return []
    return arrays if all(np.isfinite(each).all() for each in arrays) else []


def _largest(vectors: NDArray[Any]) -> float:
    return float(np.abs(vectors).max(initial=0.0))
