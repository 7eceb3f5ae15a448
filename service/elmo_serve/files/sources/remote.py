"""A server that computes; this process needs no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import tee
from typing import Any

from elmo_client import Client
from elmo_serve.files.sources.source import Computed, Stateless, Tokens, Vectors
from elmo_serve.output import Output
from elmo_serve.workers.messages import ModelInfo

_GROUP_BYTES = 8 * 1024**2


class Remote(Stateless):
    """A server, which sorts by length itself."""

    def __init__(self, client: Client, layers: str | int, output: Output) -> None:
        said = client.info()
        names = ("revision", "format", "layers", "dimension", "parameters", "precision")
        self.info = ModelInfo(name=said["model"], **{name: said[name] for name in names})
        self._client = client
        self._layers: Any = [layers] if isinstance(layers, int) else layers
        self._output = output

    def groups(self, sentences: Iterable[Tokens], computed: Computed) -> Iterator[list[Vectors]]:
        sent, lengths = tee(sentences)
        group: list[Vectors] = []
        size = 0
        for array, tokens in zip(
            self._client.stream(sent, layers=self._layers), map(len, lengths), strict=True
        ):
            # One layer by its number comes as a stack of one.
            group.append(array.reshape(self._output.shape(tokens, self.info.dimension)))
            size += array.nbytes
            computed(tokens)
            if size >= _GROUP_BYTES:
                yield group
                group, size = [], 0
        if group:
            yield group
