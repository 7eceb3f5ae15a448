"""The input of a training step: characters of the distinct words, and both directions."""

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.network.config import CharCNNConfig
from elmo_model.text.alphabets import Alphabet
from elmo_model.training.corpus import Corpus, Numbers
from elmo_model.training.options import Options
from elmo_model.training.row_stream import Cursor, Rows, RowStream
from elmo_model.training.sampled_softmax import draw_candidates
from elmo_model.training.vocabulary import Vocabulary

_PREFETCHED = 8  # batches that wait in the queue; more only cost memory
_WIDTHS = (16, 24)  # characters of the narrow chunks of fixed widths
_ROWS = 128  # a chunk of fixed width has a multiple of as many words
_ENCODED = 1 << 16  # words whose characters are encoded at once; bounds memory


NO_CANDIDATES: Numbers = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Direction:
    """The words of one direction, T steps of B rows.

    - `index` (T, B) is the row of each word among the batch's distinct words, `targets` (T, B) the
      vocabulary number of the word that follows.
    - `keep` (T, B, 1) is false where a row starts a sentence, from zero state.
    - `candidates` (S,) and `tries` belong to the sampled softmax; S is 0 for the full softmax.
    """

    index: Tensor
    targets: Tensor
    keep: Tensor
    candidates: Tensor
    tries: Tensor

    @classmethod
    def of(
        cls,
        index: Numbers,
        targets: Numbers,
        starts: NDArray[np.bool_] | None = None,
        candidates: Numbers = NO_CANDIDATES,
        tries: int = 0,
    ) -> Self:
        """Turn rows of words and targets, (B, T) each, into time steps.

        With a mask of sentence `starts` (B, T) the state is zero at each of them. Otherwise it is
        carried through every row.
        """
        keep = np.ones(index.shape, dtype=bool) if starts is None else ~starts
        return cls(
            _by_step(index),
            _by_step(targets),
            _by_step(keep).unsqueeze(2),
            torch.from_numpy(candidates),
            torch.tensor(tries, dtype=torch.float64),
        )

    @property
    def tensors(self) -> list[Tensor]:
        """All of it, in the order above."""
        return [self.index, self.targets, self.keep, self.candidates, self.tries]

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return the direction with `change` applied to every tensor."""
        return type(self)(*map(change, self.tensors))


def _by_step(rows: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(rows.T))


@dataclass(frozen=True, slots=True)
class Batch:
    """One step of both directions, which read different text.

    `characters` holds the ids of the distinct words in chunks of similar length, (words,
    characters) each. `directions` are forward and backward. `cursors` are the positions of both
    row streams after this batch.
    """

    characters: tuple[Tensor, ...]
    directions: tuple[Direction, Direction]
    cursors: tuple[Cursor, ...]

    @property
    def tensors(self) -> list[Tensor]:
        """Every tensor of the batch, in one order for all batches."""
        forward, backward = self.directions
        return [*self.characters, *forward.tensors, *backward.tensors]

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return the batch with `change` applied to every tensor."""
        forward, backward = self.directions
        characters = tuple(map(change, self.characters))
        return replace(
            self, characters=characters, directions=(forward.map(change), backward.map(change))
        )

    def to(self, device: torch.device) -> Self:
        """Return the batch on a device; pinned memory is copied asynchronously."""
        return self.map(lambda values: values.to(device, non_blocking=True))


class CharacterTable:
    """The characters of every word of a corpus, and its number in the vocabulary.

    Distinct words of a batch are cut into chunks of about `chunk` characters. Without `chunk` they
    are cut at fixed widths, and chunks are filled up to numbers of rows that hardly change from
    batch to batch, as a captured step needs it.
    """

    def __init__(
        self,
        corpus: Corpus,
        vocabulary: Vocabulary,
        alphabet: Alphabet,
        cnn: CharCNNConfig,
        chunk: int | None,
    ) -> None:
        self.targets = vocabulary.word_ids(corpus.words)
        lengths = np.array(alphabet.lengths(corpus.words), dtype=np.int64)
        # one window of padding after a word holds every value that the max-pool can see there
        most = alphabet.max_characters
        self._widths = np.minimum(lengths + cnn.widest, most)
        self._lengths = lengths.astype(np.int16)  # sorted by digits: six times as fast
        self._chunk = chunk
        self._fixed = (*(width for width in _WIDTHS if cnn.widest <= width < most), most)
        self._rows = [0 for _ in self._fixed]  # of each of these widths
        self._ids = np.concatenate(
            [
                alphabet.encode(corpus.words[start : start + _ENCODED], most).astype(np.int16)
                for start in range(0, len(corpus.words), _ENCODED)
            ]
        )
        self._rank = np.empty(len(corpus.words), dtype=np.int64)

    def look_up(self, words: Numbers) -> tuple[tuple[Tensor, ...], Numbers]:
        """Map word numbers to the characters of the distinct words, and to their rows there."""
        marks = np.zeros(len(self._lengths), dtype=bool)
        marks[words] = True
        distinct = np.flatnonzero(marks)
        distinct = distinct[np.argsort(self._lengths[distinct], kind="stable")]
        chunks, first = list[Tensor](), 0
        size = self._chunk
        cut = self._at_widths(distinct) if size is None else self._by_size(distinct, size)
        for own, width, rows in cut:
            ids = np.zeros((rows, width), dtype=np.int64)
            ids[: len(own)] = self._ids[own, :width]
            self._rank[own] = np.arange(first, first + len(own))
            chunks.append(torch.from_numpy(ids))
            first += rows
        return tuple(chunks), self._rank[words]

    def _by_size(self, distinct: Numbers, size: int) -> Iterator[tuple[Numbers, int, int]]:
        """Cut words sorted by length into chunks of about as many characters each.

        Yields the words, the width and the rows of each.
        """
        widths = self._widths[distinct]
        start = 0
        while start < len(distinct):
            # characters of a chunk from `start` to each later word; they never fall
            sizes = widths[start:] * np.arange(1, len(distinct) - start + 1)
            end = start + max(1, int(np.searchsorted(sizes, size, side="right")))
            yield distinct[start:end], int(widths[end - 1]), end - start
            start = end

    def _at_widths(self, distinct: Numbers) -> Iterator[tuple[Numbers, int, int]]:
        """Cut words sorted by length at fixed widths, into chunks.

        Row counts only grow, so that a captured step is seldom captured again.
        """
        ends = np.searchsorted(self._widths[distinct], self._fixed, side="right")
        for number, (start, end) in enumerate(pairwise((0, *ends))):
            if end - start > self._rows[number]:
                self._rows[number] = -(-(end - start) * 9 // 8 // _ROWS) * _ROWS
            yield distinct[start:end], self._fixed[number], self._rows[number]


class Batches:
    """The endless batches of a run, which depend on the seed and on the position in the text."""

    def __init__(
        self,
        corpus: Corpus,
        characters: CharacterTable,
        options: Options,
        words: int,
        seed: int | None,
    ) -> None:
        """Read a corpus by the rows, time steps, samples and state of options."""
        self._characters, self._options = characters, options
        self._words, self._seed = words, seed
        self._streams = [
            RowStream(corpus, options.rows, options.unroll, backward=backward, seed=seed)
            for backward in (False, True)
        ]

    def cursors(self) -> tuple[Cursor, ...]:
        """Return the positions in the text after the last batch."""
        return tuple(stream.cursor() for stream in self._streams)

    def restore(self, cursors: tuple[Cursor, ...]) -> None:
        """Continue after the batch that had these cursors."""
        for stream, cursor in zip(self._streams, cursors, strict=True):
            stream.restore(cursor)

    def next_batch(self, number: int) -> Batch | None:
        """Return the batch of step `number`, or None at the end of a text that is read once."""
        read = [stream.next_batch() for stream in self._streams]
        forward, backward = read
        if forward is None or backward is None:
            return None
        characters, index = self._characters.look_up(np.stack((forward.inputs, backward.inputs)))
        directions = (
            self._direction(forward, index[0], number, 0),
            self._direction(backward, index[1], number, 1),
        )
        return Batch(characters, directions, self.cursors())

    def _direction(self, rows: Rows, index: Numbers, step: int, which: int) -> Direction:
        candidates, tries = NO_CANDIDATES, 0
        if self._options.samples:
            generator = np.random.default_rng([self._seed or 0, which, step, 1])
            candidates, tries = draw_candidates(self._options.samples, self._words, generator)
        starts = rows.begins if self._options.fresh else None
        targets = self._characters.targets[rows.targets]
        return Direction.of(index, targets, starts, candidates, tries)


@contextmanager
def prefetched(batches: Batches, first: int, *, pinned: bool) -> Iterator[Iterator[Batch]]:
    """Yield an iterator over the batches from number `first` on, which a thread prepares.

    `pinned` puts them into page-locked memory, from which a GPU copies asynchronously. An error of
    the thread is raised where the batch is taken.
    """

    def prepare(number: int) -> Batch | None:
        batch = batches.next_batch(number)
        return batch.map(Tensor.pin_memory) if batch is not None and pinned else batch

    def take() -> Iterator[Batch]:
        waiting = deque(thread.submit(prepare, first + ahead) for ahead in range(_PREFETCHED))
        for number in itertools.count(first + _PREFETCHED):
            batch = waiting.popleft().result()
            if batch is None:
                return
            waiting.append(thread.submit(prepare, number))
            yield batch

    thread = ThreadPoolExecutor(1, "elmo-batches")
    try:
        yield take()
    finally:
        thread.shutdown(cancel_futures=True)
