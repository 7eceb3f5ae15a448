"""Vectors computed by a server; this process needs no torch."""

from collections.abc import Iterable, Iterator
from itertools import tee
from typing import Any

from elmo_client import Client
from elmo_model.word_vectors.look_up import WordVectorsInfo
from elmo_serve.files.vectors import OnComputed, Source, Tokens, Vectors
from elmo_serve.output import Output
from elmo_serve.workers.messages import ModelInfo

# Bytes of a group. Larger groups are journalled less often and need more memory.
_GROUP_BYTES = 8 * 1024**2


def served_model(client: Client) -> ModelInfo:
    """Return the description of the model that a server computes with."""
    info = client.info()
    names = ("revision", "format", "layers", "dimension", "parameters", "precision")
    text = {name: info[name] for name in ("tokenizer", "language") if name in info}
    words = info.get("word_vectors")
    return ModelInfo(
        name=info["model"],
        **{name: info[name] for name in names},
        **text,
        word_vectors=None if words is None else WordVectorsInfo(**words),
    )


class Remote(Source):
    """A server, which sorts sentences by length itself."""

    def __init__(self, client: Client, layers: str | int, output: Output) -> None:
        super().__init__(served_model(client), output)
        self._client = client
        self._layers: Any = layers  # a name that the client knows, or a number

    def groups(
        self, sentences: Iterable[Tokens], on_computed: OnComputed
    ) -> Iterator[list[Vectors]]:
        """Yield the vectors of all sentences, in groups of some megabytes."""
        sent, lengths = tee(sentences)
        arrays = self._client.stream(
            sent,
            layers=self._layers,
            pooling=self.output.pooling,
            normalize=self.output.normalize,
            word_vectors="append" if self.output.appended else None,
        )
        group: list[Vectors] = []
        size = 0
        for array, tokens in zip(arrays, map(len, lengths), strict=True):
            group.append(array)
            size += array.nbytes
            on_computed(tokens)
            if size >= _GROUP_BYTES:
                yield group
                group, size = [], 0
        if group:
            yield group
