"""One direction of a batch: packed words, their targets, and the state of every segment."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.network.bilm import time_steps
from elmo_model.training.corpus import Ids


@dataclass(frozen=True, slots=True)
class Direction:
    """The N = T x B words of one direction, packed time by time: step t has sizes[t] of them.

    - `index` (N,) is the row of each word among the batch's distinct words, `targets` (N,) the
      vocabulary number of the word that follows.
    - A row is split into segments at sentence starts. `before[k]` is the row whose carried state
      segment k starts from (B = zero state), segments sorted by descending length; `after[r]` is
      the last segment of row r.
    - `candidates` (S,) and `tries` belong to the sampled softmax; S is 0 for the full softmax.
    """

    index: Tensor
    targets: Tensor
    sizes: tuple[int, ...]
    before: Tensor
    after: Tensor
    candidates: Tensor
    tries: Tensor

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return the direction with `change` applied to every tensor."""
        return replace(
            self,
            index=change(self.index),
            targets=change(self.targets),
            before=change(self.before),
            after=change(self.after),
            candidates=change(self.candidates),
            tries=change(self.tries),
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """How a batch of (rows, steps) is packed: `order` lists its cells, row by row, by time step.

    `sizes`, `before` and `after` are those of `Direction`.
    """

    order: Ids
    sizes: tuple[int, ...]
    before: Ids
    after: Ids

    @classmethod
    def of(cls, begins: NDArray[np.bool_], *, fresh: bool) -> "Layout":
        """Pack (rows, steps) from a mask of sentence starts.

        With `fresh` the state is zero at every sentence start. Otherwise every row is one segment
        that continues from its carried state.
        """
        rows, steps = begins.shape
        breaks = np.zeros((rows, steps), dtype=bool)
        if fresh:
            breaks |= begins
        own = breaks[:, 0].copy()  # rows whose first segment starts a sentence
        breaks[:, 0] = True
        starts = np.flatnonzero(breaks)
        lengths = np.diff(starts, append=rows * steps)
        by_length, sizes, step, segment = time_steps(lengths)
        order = starts[segment] + step

        row, column = starts // steps, starts % steps
        before = np.where((column == 0) & ~own[row], row, rows)
        last = np.searchsorted(starts, np.arange(1, rows + 1) * steps) - 1
        return cls(order, sizes, before[by_length], np.argsort(by_length)[last])

    def direction(self, index: Ids, targets: Ids, candidates: Ids, tries: int) -> Direction:
        """Pack word rows and targets, (rows, steps) each."""
        return Direction(
            torch.from_numpy(index.ravel()[self.order]),
            torch.from_numpy(targets.ravel()[self.order]),
            self.sizes,
            torch.from_numpy(self.before),
            torch.from_numpy(self.after),
            torch.from_numpy(candidates),
            torch.tensor(tries, dtype=torch.float64),
        )


NO_CANDIDATES: Ids = np.zeros(0, dtype=np.int64)
