"""The values of a biLM: its state between two calls, and the vectors of a batch of sentences."""

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
        forward, backward = zip(self.h.chunk(2, dim=2), self.c.chunk(2, dim=2), strict=True)
        return forward, backward

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
        """Return `later`; rows beyond its batch keep their values from this state.

        So does AllenNLP (`encoder_base.py`) for a smaller batch.
        """
        if later.rows >= self.rows:
            return later
        return State(
            torch.cat((later.h, self.h[:, later.rows :]), dim=1),
            torch.cat((later.c, self.c[:, later.rows :]), dim=1),
        )


@dataclass(frozen=True, slots=True)
class Representations:
    """The vectors of all layers for several sentences.

    `layers` is (L + 1, N, 2P): the sentences one after another. `lengths` are the tokens of each
    sentence, N in all. With `bounded` each sentence has its two boundary tokens, which count.
    """

    layers: Tensor
    lengths: tuple[int, ...]
    bounded: bool

    def sentences(self) -> list[Tensor]:
        """Return a view (L + 1, n, 2P) of each sentence, with its boundaries when `bounded`."""
        return list(torch.split(self.layers, list(self.lengths), dim=1)) if self.lengths else []

    @property
    def inside(self) -> slice:
        """The tokens of a sentence without boundaries, on the token axis of such a view."""
        return slice(1, -1) if self.bounded else slice(None)


def _grow(values: Tensor, missing: int) -> Tensor:
    return functional.pad(values, (0, 0, 0, missing)) if missing else values
