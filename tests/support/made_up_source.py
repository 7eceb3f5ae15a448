"""A source of vectors that costs nothing and ends where a test says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from elmo_serve.files.vectors import OnComputed, Source, Tokens, Vectors
from elmo_serve.selection import Output
from elmo_serve.workers.messages import ModelInfo

INFO = ModelInfo("made up", "1", "none", 3, 2, 0, "float32")


class MadeUp(Source):
    """Groups of `rows` sentences; each number is that of the tokens of its sentence.

    `before` is called before sentence n of all that are asked for, counted from 0.
    """

    def __init__(
        self, output: Output, before: Callable[[int], None] = lambda _: None, rows: int = 2
    ) -> None:
        super().__init__(INFO, output)
        self._before, self._rows, self._asked = before, rows, 0

    def groups(
        self, sentences: Iterable[Tokens], on_computed: OnComputed
    ) -> Iterator[list[Vectors]]:
        group: list[Vectors] = []
        for tokens in sentences:
            self._asked += 1
            self._before(self._asked - 1)
            shape = self.output.shape(len(tokens), self.info.dimension)
            group.append(np.full(shape, len(tokens), np.float32))
            on_computed(len(tokens))
            if len(group) == self._rows:
                yield group
                group = []
        if group:
            yield group
