"""This process computes: each sentence by itself, or with state carried as the old tools did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from elmo_model.state import State
from elmo_serve.files.in_process import InProcess, arrays_of
from elmo_serve.files.sources.source import Computed, Stateless, Tokens, Vectors
from elmo_serve.output import BOUNDARIES, Output

_WINDOW_BATCHES = 16
_WINDOW_BYTES = 128 * 1024**2


class Sorted(Stateless):
    """This process: sentences of like length together, within a window that fits into memory."""

    def __init__(self, network: InProcess, output: Output) -> None:
        self.info = network.info
        self._network = network
        self._output = output

    def groups(self, sentences: Iterable[Tokens], computed: Computed) -> Iterator[list[Vectors]]:
        for window in self._windows(sentences):
            answers: dict[int, Vectors] = {}
            for batch in batches([len(each) for each in window], self._network.batch_tokens):
                arrays = self._network.embed([window[row] for row in batch], self._output)
                answers.update(zip(batch, arrays, strict=True))
                computed(sum(len(window[row]) for row in batch))
            yield [answers[row] for row in range(len(window))]

    def _windows(self, sentences: Iterable[Tokens]) -> Iterator[list[Tokens]]:
        window: list[Tokens] = []
        tokens = size = 0
        for sentence in sentences:
            window.append(sentence)
            tokens += len(sentence) + BOUNDARIES
            size += self._output.size(len(sentence), self.info.dimension)
            if tokens >= _WINDOW_BATCHES * self._network.batch_tokens or size >= _WINDOW_BYTES:
                yield window
                window, tokens, size = [], 0, 0
        if window:
            yield window


class Carried:
    """This process with the state carried from batch to batch, in the order of the file.

    AllenNLP's way with batches of any size (`encoder_base.py`), bilm-tf's with batches of one
    (`dump_bilm_embeddings`): row r of a batch goes on where row r of the one before ended.
    """

    def __init__(self, network: InProcess, output: Output, batch_size: int) -> None:
        self.info = network.info
        self._network = network
        self._output = output
        self._batch_size = batch_size
        self._state: State | None = None

    def groups(self, sentences: Iterable[Tokens], computed: Computed) -> Iterator[list[Vectors]]:
        rows = iter(sentences)
        while batch := list(islice(rows, self._batch_size)):
            arrays, self._state = self._network.carry(batch, self._output, self._state)
            computed(sum(map(len, batch)))
            yield arrays

    def state(self) -> Mapping[str, Vectors]:
        return {} if self._state is None else arrays_of(self._state)

    def restore(self, state: Mapping[str, Vectors]) -> None:
        if state:
            self._state = self._network.state_of(state)


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Cut sentences, longest first, into batches of nearly the same number of tokens.

    None is above `budget` but one sentence alone; none is a small remainder, which would cost as
    many steps as a full one.
    """
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    left = sum(lengths) + BOUNDARIES * len(lengths)
    count = max(1, -(-left // budget))
    batch: list[int] = []
    tokens = 0
    for row in order:
        cost = lengths[row] + BOUNDARIES
        if batch and (tokens + cost > budget or tokens + cost / 2 > left / count):
            yield batch
            left, count = left - tokens, max(1, count - 1)
            batch, tokens = [], 0
        batch.append(row)
        tokens += cost
    if batch:
        yield batch
