"""The state of a biLM between two calls."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class State:
    """What the LSTMs of L layers remember of every row of a batch.

    `h` is (L, rows, 2P), the projected and clipped output before any residual; `c` is
    (L, rows, 2D), the clipped cell. The forward direction has the first half of each.
    """

    h: Tensor
    c: Tensor

    @property
    def rows(self) -> int:
        """Rows of the batch that are remembered."""
        return self.h.shape[1]

    def take(self, rows: int) -> "State":
        """Return the first `rows` rows; those that were never seen are zero."""
        missing = max(0, rows - self.rows)
        return State(_grow(self.h[:, :rows], missing), _grow(self.c[:, :rows], missing))

    def repeat(self, rows: int) -> "State":
        """Return `rows` rows like the only one there is, without a copy."""
        return State(self.h.expand(-1, rows, -1), self.c.expand(-1, rows, -1))

    def carry(self, later: "State") -> "State":
        """Return `later`, followed by the rows of this state that it does not reach.

        A smaller batch leaves the rows beyond it as they were (AllenNLP `encoder_base.py`).
        """
        if later.rows >= self.rows:
            return later
        return State(
            torch.cat((later.h, self.h[:, later.rows :]), dim=1),
            torch.cat((later.c, self.c[:, later.rows :]), dim=1),
        )

    def detach(self) -> "State":
        """Return the same numbers, cut off from what computed them."""
        return State(self.h.detach(), self.c.detach())


def _grow(values: Tensor, missing: int) -> Tensor:
    return functional.pad(values, (0, 0, 0, missing)) if missing else values
