"""The state of a biLM between two calls."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

from elmo_model.network.config import LSTMConfig

DirectionState = tuple[Tensor, Tensor]
"""h (L, rows, P) and c (L, rows, D) of one direction."""


@dataclass(frozen=True, slots=True)
class State:
    """The state of the LSTMs of L layers, both directions, for every row of a batch.

    `h` is (L, rows, 2P), the projected and clipped output before any residual; `c` is
    (L, rows, 2D), the clipped cell. The forward direction has the first half of each.
    """

    h: Tensor
    c: Tensor

    @classmethod
    def zero(cls, config: LSTMConfig, like: Tensor, rows: int) -> Self:
        """Return the state before the first token, of the type and on the device of `like`."""
        return cls(
            like.new_zeros(config.layers, rows, 2 * config.projection),
            like.new_zeros(config.layers, rows, 2 * config.cell),
        )

    @classmethod
    def join(cls, forward: DirectionState, backward: DirectionState) -> Self:
        """Return the state of both directions."""
        h, c = (torch.cat(halves, dim=2) for halves in zip(forward, backward, strict=True))
        return cls(h, c)

    def directions(self) -> tuple[DirectionState, DirectionState]:
        """Return h (L, rows, P) and c (L, rows, D) of the forward and the backward direction."""
        (ahead_h, behind_h), (ahead_c, behind_c) = self.h.chunk(2, dim=2), self.c.chunk(2, dim=2)
        return (ahead_h, ahead_c), (behind_h, behind_c)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.h.shape[1]

    def take(self, rows: int) -> "State":
        """Return the first `rows` rows; rows that this state lacks are zero."""
        missing = max(0, rows - self.rows)
        return State(_grow(self.h[:, :rows], missing), _grow(self.c[:, :rows], missing))

    def repeat(self, rows: int) -> "State":
        """Return `rows` copies of the only row, without copying memory."""
        return State(self.h.expand(-1, rows, -1), self.c.expand(-1, rows, -1))

    def carry(self, later: "State") -> "State":
        """Return `later`, followed by the rows of this state that `later` does not have.

        A smaller batch leaves the rows beyond it unchanged (AllenNLP `encoder_base.py`).
        """
        if later.rows >= self.rows:
            return later
        return State(
            torch.cat((later.h, self.h[:, later.rows :]), dim=1),
            torch.cat((later.c, self.c[:, later.rows :]), dim=1),
        )

    def detach(self) -> "State":
        """Return the same values without their gradient history."""
        return State(self.h.detach(), self.c.detach())


def _grow(values: Tensor, missing: int) -> Tensor:
    return functional.pad(values, (0, 0, 0, missing)) if missing else values
