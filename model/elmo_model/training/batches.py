"""What a training step is given: characters of the distinct words, and where each word stands."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from elmo_model.alphabets import Alphabet
from elmo_model.config import CharCNNConfig
from elmo_model.training.corpus import Corpus, Numbers
from elmo_model.training.direction import NO_CANDIDATES, Layout, Side
from elmo_model.training.row_stream import Cursor, Rows, RowStream
from elmo_model.training.sampled_softmax import draw_candidates
from elmo_model.training.vocabulary import Vocabulary

_AHEAD = 8  # batches that are made before they are asked for
_ENCODED = 1 << 16  # words whose characters are looked up at once


@dataclass(frozen=True, slots=True)
class Batch:
    """One step of both directions, which read different text.

    `characters` are the ids of the distinct words in pieces of like length, (words, characters)
    each; `sides` are forward and backward, of `rows` rows each. `cursors` say where the streams of
    both directions stand after this batch.
    """

    characters: tuple[Tensor, ...]
    sides: tuple[Side, Side]
    rows: int
    cursors: tuple[Cursor, ...] = ()

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return the same with every tensor changed."""
        forward, backward = self.sides
        characters = tuple(map(change, self.characters))
        return replace(
            self, characters=characters, sides=(forward.map(change), backward.map(change))
        )

    def to(self, device: torch.device) -> Self:
        """Return the same on a device; from pinned memory it is copied while the host goes on."""
        return self.map(lambda values: values.to(device, non_blocking=True))


class Spelling:
    """The characters of every word of a corpus, and its number in the vocabulary."""

    def __init__(
        self,
        corpus: Corpus,
        vocabulary: Vocabulary,
        alphabet: Alphabet,
        cnn: CharCNNConfig,
        piece: int,
    ) -> None:
        self.targets = np.array(vocabulary.numbers(corpus.words), dtype=np.int64)
        self._lengths = np.array(alphabet.lengths(corpus.words), dtype=np.int64)
        # beyond a word's end one window of padding holds all that the maximum can meet
        self._widths = np.minimum(self._lengths + cnn.widest, alphabet.max_characters)
        self._piece = piece
        self._ids = np.concatenate(
            [
                alphabet.encode(
                    corpus.words[start : start + _ENCODED], alphabet.max_characters
                ).astype(np.int16)
                for start in range(0, len(corpus.words), _ENCODED)
            ]
        )
        self._rank = np.empty(len(corpus.words), dtype=np.int64)

    def spell(self, words: Numbers) -> tuple[tuple[Tensor, ...], Numbers]:
        """Map numbers of words to the characters of the distinct ones, and each one's place."""
        marks = np.zeros(len(self._lengths), dtype=bool)
        marks[words] = True
        distinct = np.flatnonzero(marks)
        distinct = distinct[np.argsort(self._lengths[distinct], kind="stable")]
        self._rank[distinct] = np.arange(len(distinct))
        return tuple(self._pieces(distinct)), self._rank[words]

    def _pieces(self, distinct: Numbers) -> Iterator[Tensor]:
        """Cut words sorted by length so that each piece has about as many characters."""
        widths = self._widths[distinct]
        start = 0
        while start < len(distinct):
            # characters of a piece from `start` to each later word; they only rise
            sizes = widths[start:] * np.arange(1, len(distinct) - start + 1)
            end = start + max(1, int(np.searchsorted(sizes, self._piece, side="right")))
            ids = self._ids[distinct[start:end], : widths[end - 1]]
            yield torch.from_numpy(ids.astype(np.int64))
            start = end


class Batches:
    """The endless batches of one process: its share of the rows that all processes fill together.

    What comes depends on the seed and on where the streams stand, not on how many processes share
    the rows. With `fresh` every sentence is read from zero state.
    """

    def __init__(
        self,
        corpus: Corpus,
        spelling: Spelling,
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
        self._spelling = spelling
        self._first = rows // processes * process
        self._last = self._first + rows // processes
        self._samples, self._words, self._seed = samples, words, seed
        self._fresh = fresh
        self._streams = [
            RowStream(corpus, rows, steps, backward=backward, seed=seed)
            for backward in (False, True)
        ]

    def restore(self, cursors: tuple[Cursor, ...]) -> None:
        """Go on from where a batch said that the streams stood."""
        for stream, cursor in zip(self._streams, cursors, strict=True):
            stream.restore(cursor)

    def next_batch(self, number: int) -> Batch | None:
        """Return the batch of step `number`, None where a corpus that is read once has ended."""
        read = [stream.next_batch(self._first, self._last) for stream in self._streams]
        forward, backward = read
        if forward is None or backward is None:
            return None
        characters, index = self._spelling.spell(np.stack((forward.inputs, backward.inputs)))
        sides = (
            self._side(forward, index[0], number, 0),
            self._side(backward, index[1], number, 1),
        )
        cursors = tuple(stream.cursor() for stream in self._streams)
        return Batch(characters, sides, self._last - self._first, cursors)

    def _side(self, rows: Rows, index: Numbers, number: int, direction: int) -> Side:
        layout = Layout.of(rows.begins, fresh=self._fresh)
        candidates, tries = NO_CANDIDATES, 0
        if self._samples:
            generator = np.random.default_rng([self._seed or 0, direction, number, 1])
            candidates, tries = draw_candidates(self._samples, self._words, generator)
        targets = self._spelling.targets[rows.targets]
        return layout.side(index, targets, candidates, tries)


@contextmanager
def made_ahead(batches: Batches, first: int, *, pinned: bool) -> Iterator[Iterator[Batch]]:
    """Give the batches from number `first` on, made by a thread while others are in use.

    `pinned` lays them into memory that a GPU copies from by itself.
    """
    ready: queue.Queue[Batch | BaseException | None] = queue.Queue(_AHEAD)
    ended = threading.Event()

    def put(item: Batch | BaseException | None) -> None:
        while not ended.is_set():
            try:
                ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return

    def make() -> None:
        number = first
        try:
            while not ended.is_set():
                batch = batches.next_batch(number)
                put(batch.map(Tensor.pin_memory) if batch is not None and pinned else batch)
                if batch is None:
                    return
                number += 1
        except BaseException as error:  # raised where the batch is taken
            put(error)

    def take() -> Iterator[Batch]:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    thread = threading.Thread(target=make, name="elmo-batches", daemon=True)
    thread.start()
    try:
        yield take()
    finally:
        ended.set()
        thread.join()
