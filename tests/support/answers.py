"""What the network itself answers, called directly, to compare the service's answers with."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import torch

from benchmarks.comparison import Request
from elmo_model.models.opening import open_model
from tests.support.http_messages import decoded
from tests.support.vectors import Array, difference, selected

TASK_NAME = "load"
"""The name of the task that requests may use."""

TASK = {"weights": [0.3, -1.0, 0.8], "gamma": 1.7, "layer_norm": True}

_LONGEST = 120
_COMMON = (
    "the of and to in a is that was for on as with by he it at from his an are were which be this "
    "or had first not has its also one their after new who two have been her she but other when "
    "time during there into all year city may more some about most can between over only made used "
    "through many then no world up however would part him university state film these season such "
    "than while known under school second well work later war years born out american being team "
    ", . ( ) \" ' - ; : Zürich naïve 東京 1984 3.14"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that can be checked: which sentences, and the other fields of its body."""

    sentences: tuple[int, ...]
    options: dict[str, Any]


class Answers:
    """Some sentences and all layers of each, computed once."""

    def __init__(self, model: str, sentences: Sequence[list[str]]) -> None:
        elmo = open_model(model)
        self.sentences = list(sentences)
        self._layers: list[Array] = []
        with torch.inference_mode():
            for start in range(0, len(sentences), 16):
                found, _ = elmo(self.sentences[start : start + 16])
                self._layers += [layers.numpy().copy() for layers in found.sentences()]
        self.layer_count = elmo.config.layers

    def expected(self, index: int, options: dict[str, Any]) -> Array:
        """Return the vectors of a sentence for the fields of a request, in float64."""
        if "task" in options:
            options = {**options, "mix": TASK}
        return selected(self._layers[index], options)

    def difference(self, found: Array, index: int, options: dict[str, Any]) -> float:
        """Return the largest difference in units of what is tolerated: above 1 it is wrong."""
        return difference(found, self.expected(index, options), options.get("dtype", "float32"))

    def request(self, asked: Asked, media_type: str) -> Request:
        """Return a request of the load generator, compared with what the network answers."""
        texts = [self.sentences[index] for index in asked.sentences]
        content = orjson.dumps({"sentences": texts, **asked.options})
        compare = partial(self.furthest, asked, media_type)
        return Request(content, sum(map(len, texts)), media_type, compare)

    def furthest(self, asked: Asked, media_type: str, content: bytes) -> float:
        """Return the largest difference of a response, in multiples of the tolerance."""
        found = decoded(media_type, content)
        if len(found) != len(asked.sentences):
            return float("inf")
        if media_type == "application/json":  # it has no float16, only the digits of its numbers
            found = [array.astype(asked.options.get("dtype", "float32")) for array in found]
        pairs = zip(found, asked.sentences, strict=True)
        return max((self.difference(*pair, asked.options) for pair in pairs), default=0.0)


def random_options(source: random.Random, layer_count: int) -> dict[str, Any]:
    """Return random fields of a request other than its sentences, for every kind of output."""
    every = range(layer_count)
    options: dict[str, Any] = source.choice(
        [
            {},
            {"layers": "top"},
            {"layers": "average"},
            {"layers": source.sample(every, 2)},
            {"task": TASK_NAME},
            {
                "mix": {
                    "weights": [source.uniform(-2, 2) for _ in every],
                    "gamma": source.uniform(0.1, 3),
                    "layer_norm": source.random() < 0.5,
                }
            },
        ]
    )
    options = dict(options)
    if source.random() < 0.4:
        options["pooling"] = source.choice(["mean", "max"])
    if source.random() < 0.25:
        options["dtype"] = "float16"
    return options


def sentences(text: Path | None, count: int, source: random.Random) -> list[list[str]]:
    """Make distinct sentences of 0 to 120 words in the frequencies of a text.

    Half are lines of the text, half are pieces of any length. Without a text the words are common
    ones in the frequencies of Zipf's law.
    """
    if text is None:
        common = _COMMON.split()
        weights = [1 / rank for rank in range(1, len(common) + 1)]
        words = source.choices(common, weights, k=60 * count)
        lines = [words[start : start + 20] for start in range(0, len(words), 20)]
    else:
        with text.open(encoding="utf-8") as file:
            lines = [line.split() for line, _ in zip(file, range(50_000), strict=False)]
        words = [word for line in lines for word in line]
    made: dict[tuple[str, ...], None] = {(): None}
    while len(made) < count:
        if source.random() < 0.5:
            sentence = source.choice(lines)[:_LONGEST]
        else:
            start = source.randrange(len(words))
            sentence = words[start : start + source.randint(0, _LONGEST)]
        made[tuple(sentence)] = None
    return [list(sentence) for sentence in made]
