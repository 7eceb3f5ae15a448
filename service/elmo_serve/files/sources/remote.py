"""Vectors computed by a server; this process needs no torch."""

from collections.abc import Iterable, Iterator
from itertools import tee
from typing import Any

from elmo_client import Client
from elmo_model.word_vectors.word_vectors import WordVectorsInfo
from elmo_serve.files.sources.source import OnComputed, Stateless, Tokens, Vectors
from elmo_serve.output import Output
from elmo_serve.workers.messages import ModelInfo

# Bytes of a group. Larger groups are journalled less often and need more memory.
_GROUP_BYTES = 8 * 1024**2


class Remote(Stateless):
    """A server, which sorts sentences by length itself."""

    def __init__(self, client: Client, layers: str | int, output: Output) -> None:
        info = client.info()
        names = ("revision", "format", "layers", "dimension", "parameters", "precision")
        text = {name: info[name] for name in ("tokenizer", "language") if name in info}
        words = info.get("word_vectors")
        self.info = ModelInfo(
            name=info["model"],
            **{name: info[name] for name in names},
            **text,
            word_vectors=None if words is None else WordVectorsInfo(**words),
        )
        self._client = client
        self._layers: Any = [layers] if isinstance(layers, int) else layers
        self._output = output

    def groups(
        self, sentences: Iterable[Tokens], on_computed: OnComputed
    ) -> Iterator[list[Vectors]]:
        """Yield the vectors of all sentences, in groups of some megabytes."""
        sent, lengths = tee(sentences)
        arrays = self._client.stream(
            sent,
            # One layer by its number is a list of one, which is no selection of one vector a token.
            layers=self._layers,
            normalize=self._output.normalize,
            word_vectors="append" if self._output.appended else None,
        )
        group: list[Vectors] = []
        size = 0
        for array, tokens in zip(arrays, map(len, lengths), strict=True):
            # The server returns one layer by its number as a stack of one.
            group.append(array.reshape(self._output.shape(tokens, self.info.dimension)))
            size += array.nbytes
            on_computed(tokens)
            if size >= _GROUP_BYTES:
                yield group
                group, size = [], 0
        if group:
            yield group
