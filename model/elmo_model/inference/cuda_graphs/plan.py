"""How sentences are cut into chunks of few different shapes: each shape has a CUDA graph."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]

# Rows and time steps of the shapes. More of them leave less of a chunk idle and take longer to
# capture at the start.
ROWS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
STEPS = (16, 4, 1)
# Largest rows times steps of a chunk: enough for an efficient product. A larger number costs memory
# of the device in every graph.
MOST_POSITIONS = 2048


@dataclass(frozen=True, slots=True)
class Shape:
    """Rows and time steps of a chunk."""

    rows: int
    steps: int

    @property
    def positions(self) -> int:
        """Rows times steps."""
        return self.rows * self.steps

    @classmethod
    def of(cls, rows: int, steps: int) -> "Shape":
        """Return the shape for so many rows of which the longest has so many steps left.

        It has the smallest sufficient number of rows, and the largest number of steps of which at
        most a quarter is idle.
        """
        enough = next(each for each in ROWS if each >= rows)
        return next(shape for shape in _of_rows(enough) if 4 * (shape.steps - steps) <= shape.steps)

    @classmethod
    def every(cls) -> "list[Shape]":
        """Return all shapes; those that take most memory come first."""
        shapes = (shape for rows in ROWS for shape in _of_rows(rows))
        return sorted(shapes, key=lambda shape: (-shape.positions, -shape.rows))


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some time steps of some rows, both directions: `shape.positions` places for each.

    Its places are numbered from `place`: direction, step, row, the row fastest. The sentences
    `begins` of the plan's order start here; None when the rows continue.
    """

    shape: Shape
    place: int
    begins: slice | None

    @property
    def places(self) -> slice:
        """All places of the chunk."""
        return slice(self.place, self.place + 2 * self.shape.positions)


@dataclass(frozen=True, slots=True)
class Plan:
    """Sentences, longest first, in groups of as many rows as the widest shape has.

    `order` lists the sentences. `tokens` gives for each place the number of its token among the N
    tokens of all sentences one after another, and N for an idle place. `places` (2, N) gives the
    place of each token in either direction. The backward direction mirrors each sentence within its
    own length.
    """

    chunks: tuple[Chunk, ...]
    order: Indices
    tokens: Indices
    places: Indices

    @classmethod
    def of(cls, lengths: Sequence[int]) -> "Plan":
        """Plan for sentences of these lengths, each at least 1."""
        length = np.asarray(lengths, dtype=np.int64)
        order = np.argsort(-length, kind="stable")
        start, count = np.cumsum(length) - length, int(length.sum())
        chunks: list[Chunk] = []
        tokens: list[Indices] = []
        place = 0
        for first in range(0, len(order), ROWS[-1]):
            group = order[first : first + ROWS[-1]]
            begins, step = slice(first, first + len(group)), 0
            ends = length[group]
            while step < ends[0]:
                live = int(np.searchsorted(-ends, -step))  # sentences longer than `step`
                shape = Shape.of(live, int(ends[0]) - step)
                chunks.append(Chunk(shape, place, begins if step == 0 else None))
                tokens.append(_tokens(shape, step, start[group], ends, count))
                place += 2 * shape.positions
                step += shape.steps
        there = np.concatenate(tokens) if tokens else order
        return cls(tuple(chunks), order, there, _places(chunks, there, count))


def _of_rows(rows: int) -> list[Shape]:
    return [Shape(rows, steps) for steps in STEPS if rows * steps <= MOST_POSITIONS]


def _tokens(shape: Shape, step: int, start: Indices, ends: Indices, nothing: int) -> Indices:
    """Return the token at each place of a chunk that begins at time step `step`."""
    rows = min(shape.rows, len(ends))
    time = step + np.arange(shape.steps)[:, None]
    found = np.full((2, shape.steps, shape.rows), nothing)
    lasts = time < ends[:rows]
    found[0, :, :rows] = np.where(lasts, start[:rows] + time, nothing)
    found[1, :, :rows] = np.where(lasts, start[:rows] + ends[:rows] - 1 - time, nothing)
    return found.ravel()


def _places(chunks: Sequence[Chunk], tokens: Indices, count: int) -> Indices:
    """Return the place of each of `count` tokens in either direction, (2, count)."""
    places = np.empty((2, count + 1), dtype=np.int64)  # the last column: idle places
    for chunk in chunks:
        both = np.arange(chunk.places.start, chunk.places.stop).reshape(2, -1)
        for direction, numbers in enumerate(both):
            places[direction, tokens[numbers]] = numbers
    return places[:, :count]
