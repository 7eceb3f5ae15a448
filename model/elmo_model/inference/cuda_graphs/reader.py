"""Reads sentences chunk by chunk, each chunk by repeating a recording of it."""

from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from elmo_model.config import LSTMConfig
from elmo_model.inference.cuda_graphs.direction import Direction
from elmo_model.inference.cuda_graphs.gates import Update, plain
from elmo_model.inference.cuda_graphs.plan import MOST_POSITIONS, ROWS, Plan, Shape
from elmo_model.layers.stack import Stack
from elmo_model.state import State

# Of numbers that are about 1: far above what rounding to 16 bits makes of a chunk.
_TOLERANCE = 0.05


class Recorder(Protocol):
    """What can repeat a computation that allocates nothing which it leaves behind."""

    def both(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        """Compute both, at once where that can be."""

    def record(self, compute: Callable[[], None]) -> Callable[[], None]:
        """Return what does again, on the same memory, what `compute` does.

        May run `compute`. Raises whatever keeps it from being recorded.
        """


class RecordingError(Exception):
    """A chunk cannot be recorded, or its recording does not repeat it."""


class ChunkedReader:
    """Two prepared stacks over sentences of any lengths, from a state given, without that after.

    The state of a row lies where it is from chunk to chunk: sentences are in order of length, so
    those that go on are always the first ones. One thread reads at a time.
    """

    def __init__(
        self,
        config: LSTMConfig,
        ahead: Stack,
        behind: Stack,
        recorder: Recorder,
        update: Update = plain,
    ) -> None:
        layers, width = config.layers, config.projection
        self._ahead, self._behind = Direction(ahead, update), Direction(behind, update)
        like = ahead.get_buffer("layers.0.bias")
        self._tokens = like.new_zeros(2 * MOST_POSITIONS, width)
        self._outputs = like.new_zeros(layers, 2 * MOST_POSITIONS, width)
        self._h = like.new_zeros(2, layers, ROWS[-1], width)
        self._c = like.new_zeros(2, layers, ROWS[-1], config.cell)
        self._recorder = recorder
        self._recordings: dict[Shape, Callable[[], None]] = {}
        self._lock = Lock()

    def record(self) -> None:
        """Record every shape. Raises RecordingError."""
        with self._lock:
            for shape in Shape.every():
                self._recording(shape)

    def read(self, tokens: Tensor, lengths: Sequence[int], start: State) -> Tensor:
        """Map tokens (N, P) of all sentences, one after another, to all layers (L + 1, N, 2P).

        There is a sentence at least, and a row of `start` for each. Raises RecordingError.
        """
        plan = Plan.of(lengths)
        order, source, places = (
            torch.from_numpy(indices).to(tokens.device)
            for indices in (plan.order, plan.tokens, plan.places)
        )
        width = tokens.shape[1]
        layers = tokens.new_empty(1 + len(self._outputs), len(tokens), 2 * width)
        layers[0, :, :width] = layers[0, :, width:] = tokens
        padded = functional.pad(tokens, (0, 0, 0, 1))
        found = tokens.new_empty(len(self._outputs), len(source), width)
        with self._lock:
            # first of all: to record a chunk spoils the state
            recordings = [self._recording(chunk.shape) for chunk in plan.chunks]
            for chunk, replay in zip(plan.chunks, recordings, strict=True):
                if chunk.begins is not None:
                    self._begin(chunk.shape.rows, start, order[chunk.begins])
                count = 2 * chunk.shape.positions
                torch.index_select(padded, 0, source[chunk.places], out=self._tokens[:count])
                replay()
                found[:, chunk.places] = self._outputs[:, :count]
        for half, own in enumerate(places):
            layers[1:, :, half * width : (half + 1) * width] = found.index_select(1, own)
        return layers

    def _begin(self, rows: int, start: State, order: Tensor) -> None:
        """Let rows begin with the state of the sentences `order`; those beyond are zero."""
        for both, own, factor in ((self._h, start.h, 1.0), (self._c, start.c, 2.0)):
            both[:, :, :rows].zero_()
            for half, state in zip(both, own.chunk(2, dim=2), strict=True):
                torch.mul(state.index_select(1, order), factor, out=half[:, : len(order)])

    def _recording(self, shape: Shape) -> Callable[[], None]:
        if shape not in self._recordings:
            try:
                self._recordings[shape] = self._checked(shape)
            except RecordingError:
                raise
            except Exception as error:  # of torch, the driver or a compiler, of any kind
                raise RecordingError(f"{type(error).__name__}: {error}") from error
        return self._recordings[shape]

    def _checked(self, shape: Shape) -> Callable[[], None]:
        """Record a shape, and see that what is repeated is what was recorded."""
        compute = partial(self._advance, shape)
        replay = self._recorder.record(compute)
        expected, found = self._tried(shape, compute), self._tried(shape, replay)
        if not torch.allclose(found, expected, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True):
            raise RecordingError(f"{shape} does not repeat what was recorded")
        return replay

    def _tried(self, shape: Shape, run: Callable[[], None]) -> Tensor:
        """Return all that a run writes, when it begins with certain numbers."""
        for buffer in (self._tokens, self._h, self._c):
            numbers = torch.arange(buffer.numel(), dtype=buffer.dtype, device=buffer.device)
            buffer.copy_(numbers.sin_().view_as(buffer))
        self._outputs.zero_()
        run()
        rows, count = shape.rows, 2 * shape.positions
        written = self._outputs[:, :count], self._h[:, :, :rows], self._c[:, :, :rows]
        return torch.cat([each.reshape(-1) for each in written])

    def _advance(self, shape: Shape) -> None:
        """Compute a chunk of this shape: what is recorded."""
        rows, count = shape.rows, 2 * shape.positions
        tokens = self._tokens[:count].chunk(2)
        outputs = self._outputs[:, :count].chunk(2, dim=1)
        h, c = self._h[:, :, :rows], self._c[:, :, :rows]
        self._recorder.both(
            lambda: self._ahead.advance(tokens[0], outputs[0], h[0], c[0]),
            lambda: self._behind.advance(tokens[1], outputs[1], h[1], c[1]),
        )
