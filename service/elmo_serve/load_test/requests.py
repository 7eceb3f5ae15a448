"""The requests that a load test sends, and the checker of their responses."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from elmo_client import Client
from elmo_serve.load_test.checker import TOLERANCES, Checker
from elmo_serve.load_test.workload import (
    Body,
    RequestSize,
    WorkloadError,
    made_sentences,
    make_bodies,
    sentences_of,
)
from elmo_serve.output import Dtype, Output, Pooling, SelectionError, select


@dataclass(frozen=True, slots=True)
class Wanted:
    """The vectors that the requests ask for, and the media type of the responses.

    `layers` is a name, or numbers with commas; None with a task.
    """

    media_type: str
    layers: str | None = None
    task: str | None = None
    pooling: Pooling = "none"
    dtype: Dtype = "float32"
    normalize: bool = False
    model: str | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The members of a request body, without its sentences and without defaults."""
        usual = Wanted(self.media_type)
        layers = self.layers if self.layers is None else _layers(self.layers)
        names = ("task", "pooling", "dtype", "normalize", "model")
        given = {name: getattr(self, name) for name in names}
        found = {name: value for name, value in given.items() if value != getattr(usual, name)}
        return found if layers is None else {"layers": layers, **found}

    def output(self, client: Client) -> Output:
        """Return the output that the server's model computes. Raises WorkloadError."""
        if self.task is not None:
            task = next((task for task in client.tasks() if task.name == self.task), None)
            if task is None:
                raise WorkloadError(f"the server has no task {self.task}")
            mix = Output(weights=task.weights, gamma=task.gamma, layer_norm=task.layer_norm)
            return replace(mix, pooling=self.pooling, dtype=self.dtype, normalize=self.normalize)
        try:
            return select(
                _layers(self.layers or "all"),
                client.info()["layers"],
                pooling=self.pooling,
                dtype=self.dtype,
                normalize=self.normalize,
            )
        except SelectionError as error:
            raise WorkloadError(str(error)) from None

    def __str__(self) -> str:
        """Return the fields in words."""
        fields = {"layers": "all", **self.fields} if self.task is None else self.fields
        named = [f"{name} {value}" for name, value in fields.items() if name != "model"]
        return ", ".join([*named, self.media_type])


def bodies_for(
    wanted: Wanted,
    size: RequestSize,
    count: int,
    text: Path | None,
    seed: int,
    limits: Mapping[str, int],
) -> list[Body]:
    """Return `count` requests within the limits of a server. Raises WorkloadError."""
    longest = limits["max_sentence_tokens"]
    if text is None:
        next_sentence = made_sentences(random.Random(seed), longest)
    else:
        next_sentence = sentences_of(text, longest)
    bodies = make_bodies(count, size, next_sentence, wanted.fields)
    most = max(len(body.sentences) for body in bodies)
    if most > limits["max_request_sentences"]:
        raise WorkloadError(
            f"a request has {most} sentences; the server takes {limits['max_request_sentences']}"
        )
    return bodies


def checker_for(wanted: Wanted, client: Client, tolerance: float | None) -> Checker:
    """Return a checker without references for the responses of a server."""
    output = wanted.output(client)
    allowed = tolerance or TOLERANCES[wanted.dtype] * max(1.0, abs(output.gamma))
    return Checker(wanted.media_type, output, client.info()["dimension"], allowed)


def _layers(text: str) -> str | list[int]:
    numbers = text.split(",")
    return [int(each) for each in numbers] if all(map(str.isdecimal, numbers)) else text
