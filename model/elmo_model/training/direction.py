"""One direction of a batch: which words stand where, and which state they are read with."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.training.corpus import Numbers


@dataclass(frozen=True, slots=True)
class Side:
    """The N = T * B words of one direction, packed time by time: step t has sizes[t] of them.

    `index` says which of the batch's distinct words stands at each place, `targets` which word of
    the vocabulary comes next. What is read without a break is a piece: `before` says for each
    piece, longest first, which of the B rows' state it starts from, B being zero; `after` says for
    each row in which piece it ends. `candidates` (S,) and `tries` belong to the sampled softmax; S
    may be 0.
    """

    index: Tensor
    targets: Tensor
    sizes: tuple[int, ...]
    before: Tensor
    after: Tensor
    candidates: Tensor
    tries: Tensor

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return the same with every tensor changed."""
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
    """How the places (rows, steps) of a batch are packed: `order` lists them by step."""

    order: Numbers
    sizes: tuple[int, ...]
    before: Numbers
    after: Numbers

    @classmethod
    def of(cls, begins: NDArray[np.bool_], *, fresh: bool) -> "Layout":
        """Pack rows; with `fresh` the state is zero wherever `begins` says a sentence begins.

        Otherwise every row is one piece that goes on from where it stopped.
        """
        rows, steps = begins.shape
        breaks = np.zeros((rows, steps), dtype=bool)
        if fresh:
            breaks |= begins
        own = breaks[:, 0].copy()  # rows whose first piece is a sentence of its own
        breaks[:, 0] = True
        starts = np.flatnonzero(breaks)
        lengths = np.diff(starts, append=rows * steps)
        by_length = np.argsort(-lengths, kind="stable")
        rank = np.empty_like(by_length)
        rank[by_length] = np.arange(len(by_length))

        longest = lengths[by_length]
        sizes = np.searchsorted(-longest, -np.arange(longest[0]), side="left")
        step = np.repeat(np.arange(len(sizes)), sizes)
        piece = np.arange(len(step)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        order = starts[by_length[piece]] + step

        row, column = starts // steps, starts % steps
        before = np.where((column == 0) & ~own[row], row, rows)
        last = np.searchsorted(starts, np.arange(1, rows + 1) * steps) - 1
        return cls(order, tuple(sizes.tolist()), before[by_length], rank[last])

    def side(self, index: Numbers, targets: Numbers, candidates: Numbers, tries: int) -> Side:
        """Pack numbers (rows, steps) that stand at these places."""
        return Side(
            torch.from_numpy(index.ravel()[self.order]),
            torch.from_numpy(targets.ravel()[self.order]),
            self.sizes,
            torch.from_numpy(self.before),
            torch.from_numpy(self.after),
            torch.from_numpy(candidates),
            torch.tensor(tries, dtype=torch.float64),
        )


NO_CANDIDATES: Numbers = np.zeros(0, dtype=np.int64)
