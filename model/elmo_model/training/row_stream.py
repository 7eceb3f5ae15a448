"""The row stream: batches of full rows, each row continuing where it stopped in the last batch."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_model.training.corpus import Corpus, Numbers

_LISTED = 8192  # sentences whose positions are held as Python numbers at a time


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position of a row stream, complete enough to continue from.

    `cycle` epochs are complete and `taken` sentences of the next one have been begun. For each row,
    `places` holds the position of its next token and `left` the remaining pairs of its sentence.
    """

    cycle: int
    taken: int
    places: Numbers
    left: Numbers


@dataclass(frozen=True, slots=True)
class Rows:
    """Corpus numbers of input and target words, and sentence starts; (rows, steps) each."""

    inputs: Numbers
    targets: Numbers
    begins: NDArray[np.bool_]


class RowStream:
    """Endless batches of `rows` full rows of `steps` (input, target) pairs of one direction.

    Rows are filled in order. A row whose sentence ends takes the next sentence in the same batch,
    so that the next sentence's `<S>` follows the last word (bilm-tf `data.py`, `_get_batch`). The
    last boundary of a sentence is a target only. The backward direction reads every sentence from
    its end. With a seed every epoch has its own order: the shards at random, and the sentences of
    each shard at random. Without a seed the text is read once, last shard first, in the order of
    the files.
    """

    def __init__(
        self, corpus: Corpus, rows: int, steps: int, *, backward: bool, seed: int | None
    ) -> None:
        self._corpus = corpus
        self._rows, self._steps = rows, steps
        self._backward, self._seed = backward, seed
        nothing = np.zeros(rows, dtype=np.int64)
        self.restore(Cursor(0, 0, nothing, nothing))

    def cursor(self) -> Cursor:
        """Return the position of the stream."""
        return Cursor(self._cycle, self._taken, np.array(self._places), np.array(self._left))

    def restore(self, cursor: Cursor) -> None:
        """Continue from the position of a stream with the same arguments."""
        self._cycle, self._taken = cursor.cycle, cursor.taken
        self._places, self._left = cursor.places.tolist(), cursor.left.tolist()
        self._order = self._order_of(self._cycle)
        self._next = self._sentences()

    def next_batch(self) -> Rows | None:
        """Fill all rows and return them; None if the sentences end before the last row is full."""
        places, left, steps = self._places, self._left, self._steps
        stride = -1 if self._backward else 1
        begins: list[int] = []
        runs: list[int] = []
        news: list[bool] = []
        # plain numbers in plain loops are fast enough: thousands of rows between two GPU steps
        for row in range(self._rows):
            place, rest, room, new = places[row], left[row], steps, False
            while True:
                run = room if room < rest else rest
                if run:
                    begins.append(place)
                    runs.append(run)
                    news.append(new)
                place += stride * run
                rest -= run
                room -= run
                if not room:
                    break
                sentence = next(self._next, None)
                if sentence is None:
                    return None
                (place, rest), new = sentence, True
            places[row], left[row] = place, rest
        starts, lengths = np.array(begins, dtype=np.int64), np.array(runs, dtype=np.int64)
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        here = np.repeat(starts, lengths) + stride * within
        tokens = self._corpus.tokens
        shape = self._rows, steps
        inputs, targets = tokens[here].reshape(shape), tokens[here + stride].reshape(shape)
        begun = np.zeros(len(here), dtype=bool)
        begun[(np.cumsum(lengths) - lengths)[news]] = True
        return Rows(inputs.astype(np.int64), targets.astype(np.int64), begun.reshape(shape))

    def _sentences(self) -> Iterator[tuple[int, int]]:
        """Yield the first position and the number of pairs of every sentence."""
        while True:
            while self._taken < len(self._order):
                some = self._order[self._taken : self._taken + _LISTED]
                begins, ends = self._corpus.starts[some], self._corpus.starts[some + 1]
                firsts = ends - 1 if self._backward else begins
                for pair in zip(firsts.tolist(), (ends - begins - 1).tolist(), strict=True):
                    self._taken += 1
                    yield pair
            if self._seed is None:
                return
            self._cycle, self._taken = self._cycle + 1, 0
            self._order = self._order_of(self._cycle)

    def _order_of(self, cycle: int) -> Numbers:
        bounds = np.cumsum([0, *self._corpus.shards])
        shards: list[np.ndarray[Any, Any]] = [
            np.arange(begin, end) for begin, end in pairwise(bounds)
        ]
        if self._seed is None:
            return np.concatenate(shards[::-1])
        generator = np.random.default_rng([self._seed, self._backward, cycle])
        chosen = [shards[number] for number in generator.permutation(len(shards))]
        return np.concatenate([generator.permutation(shard) for shard in chosen])
