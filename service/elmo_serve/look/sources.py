"""Where the tokens and cosines of `elmo look` come from: a server, or a model in process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from elmo_client import Client
from elmo_model.neighbours.centre import centre_of
from elmo_serve.models.opening import open_network
from elmo_serve.output import select
from elmo_serve.similarity import cosines

Tokens = list[str]
Place = tuple[int, int | None]
"""The number of a sentence, and that of a token in it; None for the mean over its tokens."""


class Source(Protocol):
    """Splits texts, and compares places in them."""

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text."""

    def cosines(
        self, sentences: Sequence[Tokens], pairs: Sequence[tuple[Place, Place]]
    ) -> Mapping[str, Sequence[float]]:
        """Return the cosine of each pair of places, by layer and for the mean of the layers."""


class ServerSource:
    """Asks a server. Its methods raise ElmoError."""

    def __init__(self, client: Client, tokenizer: str | None, *, centred: bool) -> None:
        self._client = client
        self._tokenizer = tokenizer
        self._centred = centred

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text."""
        found = self._client.tokenize(texts, tokenizer=self._tokenizer)
        return [list(each.tokens) for each in found]

    def cosines(
        self, sentences: Sequence[Tokens], pairs: Sequence[tuple[Place, Place]]
    ) -> Mapping[str, Sequence[float]]:
        """Return the cosine of each pair of places, by layer and for the mean of the layers."""
        sides = [
            ((sentences[one], first), (sentences[two], second))
            for (one, first), (two, second) in pairs
        ]
        found = self._client.similarity(sides, centred=self._centred)
        return {name: [float(each) for each in values] for name, values in found.items()}


class ModelSource:
    """Computes in this process."""

    def __init__(self, model: str, tokenizer: str | None, *, centred: bool) -> None:
        """Open a model. Raises ElmoError, as `open_network` does."""
        self._network = open_network(model)
        self._tokenizer = tokenizer
        self._centred = centred

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text. Raises TokenizeError."""
        split = self._network.tokenizer(self._tokenizer)
        return [list(split(text).tokens) for text in texts]

    def cosines(
        self, sentences: Sequence[Tokens], pairs: Sequence[tuple[Place, Place]]
    ) -> Mapping[str, Sequence[float]]:
        """Return the cosine of each pair of places, by layer and for the mean of the layers."""
        network = self._network
        layers = network.embed(sentences, select("all", network.info.layers))
        sides = [
            layers[sentence].mean(axis=1) if token is None else layers[sentence][:, token]
            for pair in pairs
            for sentence, token in pair
        ]
        centre = centre_of(network.encoder, network.batch_tokens).layers if self._centred else None
        return cosines(np.asarray(sides, np.float64), centre)
