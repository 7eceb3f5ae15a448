"""The input of a training step: characters of the distinct words, and both directions."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from elmo_model.network.config import CharCNNConfig
from elmo_model.text.alphabets import Alphabet
from elmo_model.training.corpus import Corpus, Ids
from elmo_model.training.direction import NO_CANDIDATES, Direction, Layout
from elmo_model.training.row_stream import Cursor, Rows, RowStream
from elmo_model.training.sampled_softmax import draw_candidates
from elmo_model.training.vocabulary import Vocabulary

_PREFETCHED = 8  # batches that wait in the queue; more only cost memory
_ENCODED = 1 << 16  # words whose characters are encoded at once; bounds memory


@dataclass(frozen=True, slots=True)
class Batch:
    """One step of both directions, which read different text.

    `characters` holds the ids of the distinct words in chunks of similar length, (words,
    characters) each. `directions` are forward and backward, of `rows` rows each. `cursors` are the
    positions of both row streams after this batch.
    """

    characters: tuple[Tensor, ...]
    directions: tuple[Direction, Direction]
    rows: int
    cursors: tuple[Cursor, ...] = ()

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
    """The characters of every word of a corpus, and its number in the vocabulary."""

    def __init__(
        self,
        corpus: Corpus,
        vocabulary: Vocabulary,
        alphabet: Alphabet,
        cnn: CharCNNConfig,
        chunk: int,
    ) -> None:
        self.targets = np.array(vocabulary.numbers(corpus.words), dtype=np.int64)
        self._lengths = np.array(alphabet.lengths(corpus.words), dtype=np.int64)
        # one window of padding after a word holds every value that the max-pool can see there
        self._widths = np.minimum(self._lengths + cnn.widest, alphabet.max_characters)
        self._chunk = chunk
        self._ids = np.concatenate(
            [
                alphabet.encode(
                    corpus.words[start : start + _ENCODED], alphabet.max_characters
                ).astype(np.int16)
                for start in range(0, len(corpus.words), _ENCODED)
            ]
        )
        self._rank = np.empty(len(corpus.words), dtype=np.int64)

    def look_up(self, words: Ids) -> tuple[tuple[Tensor, ...], Ids]:
        """Map word numbers to the characters of the distinct words, and to their rows there."""
        marks = np.zeros(len(self._lengths), dtype=bool)
        marks[words] = True
        distinct = np.flatnonzero(marks)
        distinct = distinct[np.argsort(self._lengths[distinct], kind="stable")]
        self._rank[distinct] = np.arange(len(distinct))
        return tuple(self._chunks(distinct)), self._rank[words]

    def _chunks(self, distinct: Ids) -> Iterator[Tensor]:
        """Cut words sorted by length into chunks of about as many characters each."""
        widths = self._widths[distinct]
        start = 0
        while start < len(distinct):
            # characters of a chunk from `start` to each later word; they never fall
            sizes = widths[start:] * np.arange(1, len(distinct) - start + 1)
            end = start + max(1, int(np.searchsorted(sizes, self._chunk, side="right")))
            ids = self._ids[distinct[start:end], : widths[end - 1]]
            yield torch.from_numpy(ids.astype(np.int64))
            start = end


class Batches:
    """The endless batches of one process: its share of the rows of all processes.

    Batches depend on the seed and on the position in the text, not on the number of processes. With
    `fresh` every sentence is read from zero state.
    """

    def __init__(
        self,
        corpus: Corpus,
        characters: CharacterTable,
        *,
        rows: int,
        steps: int,
        samples: int,
        words: int,
        seed: int | None,
        fresh: bool,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        process, processes = share
        if rows % processes:
            raise ValueError(f"rows are {rows}, expected a multiple of the {processes} processes")
        self._characters = characters
        self._first = rows // processes * process
        self._last = self._first + rows // processes
        self._samples, self._words, self._seed = samples, words, seed
        self._fresh = fresh
        self._streams = [
            RowStream(corpus, rows, steps, backward=backward, seed=seed)
            for backward in (False, True)
        ]

    def restore(self, cursors: tuple[Cursor, ...]) -> None:
        """Continue after the batch that had these cursors."""
        for stream, cursor in zip(self._streams, cursors, strict=True):
            stream.restore(cursor)

    def next_batch(self, number: int) -> Batch | None:
        """Return the batch of step `number`, or None at the end of a text that is read once."""
        read = [stream.next_batch(self._first, self._last) for stream in self._streams]
        forward, backward = read
        if forward is None or backward is None:
            return None
        characters, index = self._characters.look_up(np.stack((forward.inputs, backward.inputs)))
        directions = (
            self._direction(forward, index[0], number, 0),
            self._direction(backward, index[1], number, 1),
        )
        cursors = tuple(stream.cursor() for stream in self._streams)
        return Batch(characters, directions, self._last - self._first, cursors)

    def _direction(self, rows: Rows, index: Ids, step: int, which: int) -> Direction:
        layout = Layout.of(rows.begins, fresh=self._fresh)
        candidates, tries = NO_CANDIDATES, 0
        if self._samples:
            generator = np.random.default_rng([self._seed or 0, which, step, 1])
            candidates, tries = draw_candidates(self._samples, self._words, generator)
        targets = self._characters.targets[rows.targets]
        return layout.direction(index, targets, candidates, tries)


@contextmanager
def prefetched(batches: Batches, first: int, *, pinned: bool) -> Iterator[Iterator[Batch]]:
    """Yield an iterator over the batches from number `first` on, which a thread prepares.

    `pinned` puts them into page-locked memory, from which a GPU copies asynchronously.
    """
    worker = _Prefetcher(batches, first, pinned)
    thread = threading.Thread(target=worker.run, name="elmo-batches", daemon=True)
    thread.start()
    try:
        yield iter(worker.take, None)
    finally:
        worker.ended.set()
        thread.join()


class _Prefetcher:
    """A bounded queue of batches, filled by a thread that calls `run`."""

    def __init__(self, batches: Batches, first: int, pinned: bool) -> None:
        self._batches, self._number, self._pinned = batches, first, pinned
        self._ready: queue.Queue[Batch | BaseException | None] = queue.Queue(_PREFETCHED)
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            while not self.ended.is_set():
                batch = self._batches.next_batch(self._number)
                if batch is not None and self._pinned:
                    batch = batch.map(Tensor.pin_memory)
                self._put(batch)
                if batch is None:
                    return
                self._number += 1
        except BaseException as error:  # raised again where the batch is taken
            self._put(error)

    def take(self) -> Batch | None:
        """Return the next batch, None at the end of the text."""
        item = self._ready.get()
        if isinstance(item, BaseException):
            raise item
        return item

    def _put(self, item: Batch | BaseException | None) -> None:
        while not self.ended.is_set():
            try:
                self._ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return
