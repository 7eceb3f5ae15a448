"""Vectors of sentences: each computed alone, or with carried state, or by a server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, tee
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from elmo_model.errors import counted
from elmo_model.text.by_length import BOUNDARIES, by_length
from elmo_serve.files.inputs import FileError
from elmo_serve.selection import Output
from elmo_serve.workers.messages import ModelInfo

if TYPE_CHECKING:
    from elmo_client import Client
    from elmo_serve.models.in_process import InProcess

Vectors = NDArray[Any]
Tokens = Sequence[str]
OnComputed = Callable[[int], None]
"""Called with the number of tokens computed since the last call."""

# Batches of a window, within which sentences are sorted by length. Larger windows pad less and need
# more memory; measured with benchmarks/whole_file.py.
_WINDOW_BATCHES = 8

# Tokens of a sentence, boundaries included, for which the size of a batch was chosen. A batch of
# longer ones has more tokens, and so as many rows: with few rows the weights are read from memory
# for each. Proteins of 300 residues: 1,570 residues/s with 31 rows, 2,110 with 128.
_USUAL_TOKENS = 26
# Batches of such sentences in a window, at least.
_LONG_BATCHES = 4

# Bytes of the vectors of a window, which are held in memory, and of all layers of a batch: what the
# longest sentence of a server needs. With half of each, proteins take an eighth longer
# (`benchmarks.proteins --allennlp` at commit 9512a53, original size).
_WINDOW_BYTES = 512 * 1024**2
_LAYER_BYTES = 512 * 1024**2

# The place of a sentence in the body of a request.
_PLACE = re.compile(r"/sentences/(\d{1,9})(?:/|$)").match

# Bytes of a group from a server. Larger groups need more memory.
_GROUP_BYTES = 8 * 1024**2


class SentenceError(FileError):
    """A sentence that cannot be computed; `number` counts the sentences of the call from 0."""

    def __init__(self, number: int, detail: str) -> None:
        super().__init__(detail)
        self.number = number


class MemoryShort(FileError):  # noqa: N818 - it says what is short
    """A batch that needs more memory than the device, or the host, has."""


class Source:
    """Maps sentences to the vectors that `output` selects, in order.

    The arrays come in groups of consecutive sentences. A group depends on its own sentences alone,
    unless `carries_state`. A part of a file ends with the first group after which it has
    `part_tokens` tokens. `batch_tokens` is the usual size of a batch.
    """

    part_tokens: int = 0
    batch_tokens: int = 1
    carries_state: bool = False

    def __init__(self, info: ModelInfo, output: Output) -> None:
        self.info = info
        self.output = output

    def check(self, sentence: Tokens) -> None:
        """Raise FileError for a sentence that cannot be computed."""

    def groups(
        self, sentences: Iterable[Tokens], on_computed: OnComputed
    ) -> Iterator[list[Vectors]]:
        """Yield the vectors of all sentences, group by group.

        Raises SentenceError for a sentence that the model fails on.
        """
        raise NotImplementedError

    def embed(self, sentences: Iterable[Tokens]) -> list[Vectors]:
        """Return the vectors of all sentences."""
        return [array for group in self.groups(sentences, lambda _: None) for array in group]


class LengthSorted(Source):
    """Computes sentences of similar length together, within a window."""

    def __init__(self, network: InProcess, output: Output) -> None:
        super().__init__(network.info, output)
        self._network = network
        self.batch_tokens = network.batch_tokens

    def groups(
        self, sentences: Iterable[Tokens], on_computed: OnComputed
    ) -> Iterator[list[Vectors]]:
        """Yield the vectors of all sentences, a window of at least eight batches at a time."""
        for window in self._windows(sentences):
            answers: dict[int, Vectors] = {}
            tokens = sum(len(each) + BOUNDARIES for each in window)
            budget = self._budget(len(window), tokens)
            for batch in by_length(range(len(window)), window, budget):
                arrays = self._embed([window[row] for row in batch])
                answers.update(zip(batch, arrays, strict=True))
                on_computed(sum(len(window[row]) for row in batch))
            yield [answers[row] for row in range(len(window))]

    def _embed(self, batch: Sequence[Tokens]) -> list[Vectors]:
        """Compute a batch; where memory is short, its two halves."""
        try:
            with _enough_memory(batch):
                return self._network.embed(batch, self.output)
        except MemoryShort:
            if len(batch) == 1:
                raise
        arrays = []
        for half in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
            with _enough_memory(half):
                arrays += self._network.embed(half, self.output)
        return arrays

    def _budget(self, sentences: int, tokens: int) -> int:
        """Return the tokens of a batch for sentences that have so many together."""
        usual = self._network.batch_tokens
        rows = usual // _USUAL_TOKENS
        most = _LAYER_BYTES // (4 * self.info.layers * self.info.dimension)
        return max(usual, min(rows * tokens // sentences, most))

    def _windows(self, sentences: Iterable[Tokens]) -> Iterator[list[Tokens]]:
        window: list[Tokens] = []
        tokens = size = 0
        for sentence in sentences:
            window.append(sentence)
            tokens += len(sentence) + BOUNDARIES
            size += self.output.size(len(sentence), self.info.dimension)
            least = max(
                _WINDOW_BATCHES * self._network.batch_tokens,
                _LONG_BATCHES * self._budget(len(window), tokens),
            )
            # One more sentence would be a batch by itself.
            is_full = tokens + tokens / len(window) > least
            if is_full or size >= _WINDOW_BYTES:
                yield window
                window, tokens, size = [], 0, 0
        if window:
            yield window


@contextmanager
def _enough_memory(batch: Sequence[Tokens]) -> Iterator[None]:
    """Raise MemoryShort in place of the errors of a device, or the host, without memory."""
    from elmo_serve.workers.model_worker import is_memory_short  # noqa: PLC0415 - torch

    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_memory_short(error):
            raise
        raise MemoryShort(
            f"not enough memory for {counted(len(batch), 'sentence')} of "
            f"{sum(map(len, batch)):,} tokens at once; free some, or name another --device"
        ) from error


class Stateful(Source):
    """Computes in the order of the file and carries the LSTM state from batch to batch.

    Row r of a batch continues from the end of row r of the batch before. With batches of any size
    this is AllenNLP (`encoder_base.py`), with batches of one bilm-tf (`dump_bilm_embeddings`).
    """

    carries_state = True

    def __init__(self, network: InProcess, output: Output, batch_size: int) -> None:
        super().__init__(network.info, output)
        self._network = network
        self.batch_tokens = network.batch_tokens
        self._batch_size = batch_size

    def groups(
        self, sentences: Iterable[Tokens], on_computed: OnComputed
    ) -> Iterator[list[Vectors]]:
        """Yield the vectors of all sentences, a batch at a time."""
        rows, state = iter(sentences), None
        while batch := list(islice(rows, self._batch_size)):
            with _enough_memory(batch):
                arrays, state = self._network.carry(batch, self.output, state)
            on_computed(sum(map(len, batch)))
            yield arrays


def served_model(client: Client) -> ModelInfo:
    """Return the description of the model that a server computes with."""
    info = client.info()
    names = ("revision", "format", "layers", "dimension", "parameters", "precision")
    text = {name: info[name] for name in ("tokenizer", "language") if name in info}
    return ModelInfo(
        name=info["model"],
        **{name: info[name] for name in names},
        **text,
    )


class Remote(Source):
    """A server, which sorts sentences by length itself."""

    part_tokens = 131_072  # a killed run loses them: more lose more, less are more files

    def __init__(self, client: Client, layers: str | int, output: Output) -> None:
        super().__init__(served_model(client), output)
        self._client = client
        self._layers: Any = layers  # a name that the client knows, or a number
        limits = client.info()["limits"]
        self._longest, self.batch_tokens = limits["max_sentence_tokens"], limits["max_batch_tokens"]

    def check(self, sentence: Tokens) -> None:
        """Raise FileError for a sentence that is longer than the server allows."""
        if len(sentence) > self._longest:
            raise FileError(
                f"holds {len(sentence):,} tokens and the server allows {self._longest:,} "
                "(ELMO_MAX_SENTENCE_TOKENS)"
            )

    def groups(
        self, sentences: Iterable[Tokens], on_computed: OnComputed
    ) -> Iterator[list[Vectors]]:
        """Yield the vectors of all sentences, in groups of some megabytes."""
        sent, lengths = tee(sentences)
        arrays = self._stream(sent)
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

    def _stream(self, sentences: Iterable[Tokens]) -> Iterator[Vectors]:
        """Yield an array a sentence. Raises SentenceError where the server refuses one."""
        import elmo_client as errors  # noqa: PLC0415 - httpx

        try:
            yield from self._client.stream(
                sentences,
                layers=self._layers,
                pooling=self.output.pooling,
                normalize=self.output.normalize,
            )
        except (errors.InvalidRequest, errors.TooLarge, errors.ServerFailed) as error:
            problem = error.problem
            numbers = [
                int(found[1]) for fault in problem.errors if (found := _PLACE(fault.pointer))
            ]
            if not numbers and isinstance(error, errors.ServerFailed):
                raise  # of no sentence
            detail = f"the server refuses it: {problem.status} {problem.title}: {problem.detail}"
            raise SentenceError(error.first + min(numbers, default=0), detail) from error
