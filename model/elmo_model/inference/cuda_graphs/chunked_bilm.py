"""The biLM chunk by chunk: each chunk is a captured computation that is replayed."""

from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock

import torch
from torch import Tensor
from torch.nn import functional

from elmo_model.inference.bilm import InferenceBiLM
from elmo_model.inference.cuda_graphs.capturer import CaptureError, Capturer
from elmo_model.inference.cuda_graphs.chunked_stack import ChunkedStack
from elmo_model.inference.cuda_graphs.gate_update import GateUpdate, plain
from elmo_model.inference.cuda_graphs.plan import MOST_POSITIONS, ROWS, Plan, Shape
from elmo_model.state import State

# Largest difference between a chunk and its replay, for numbers of about 1: far above the rounding
# to 16 bits in a chunk.
_TOLERANCE = 0.05


class ChunkedBiLM:
    """A biLM over sentences of any lengths, from a given state, without the state after.

    The state of a row stays in its place from chunk to chunk: sentences are sorted by length, so
    those that continue are always the first rows. One thread computes at a time.

    Raises CaptureError for a biLM whose products cannot be captured, such as packed ones.
    """

    def __init__(self, bilm: InferenceBiLM, capturer: Capturer, update: GateUpdate = plain) -> None:
        config = bilm.config
        layers, width = config.layers, config.projection
        self._ahead = ChunkedStack(bilm.forward_stack, update)
        self._behind = ChunkedStack(bilm.backward_stack, update)
        like = bilm.forward_stack.layers[0].bias
        self._tokens = like.new_zeros(2 * MOST_POSITIONS, width)
        self._outputs = like.new_zeros(layers, 2 * MOST_POSITIONS, width)
        self._h = like.new_zeros(2, layers, ROWS[-1], width)
        self._c = like.new_zeros(2, layers, ROWS[-1], config.cell)
        self._capturer = capturer
        self._replays: dict[Shape, Callable[[], None]] = {}
        self._lock = Lock()

    def capture_all(self) -> None:
        """Capture every shape. Raises CaptureError."""
        with self._lock:
            for shape in Shape.every():
                self._replay_of(shape)

    def encode(self, tokens: Tensor, lengths: Sequence[int], start: State) -> Tensor:
        """Map tokens (N, P) of all sentences, one after another, to all layers (L + 1, N, 2P).

        There is at least one sentence, and a row of `start` for each. A shape that was not captured
        before is captured now. Raises CaptureError.
        """
        plan = Plan.of(lengths)
        order, source, places = (
            torch.from_numpy(indices).to(tokens.device)
            for indices in (plan.order, plan.tokens, plan.places)
        )
        width = tokens.shape[1]
        layers = tokens.new_empty(1 + len(self._outputs), len(tokens), 2 * width)
        layers[0, :, :width] = layers[0, :, width:] = tokens  # layer 0 is the token vector twice
        padded = functional.pad(tokens, (0, 0, 0, 1))
        found = tokens.new_empty(len(self._outputs), len(source), width)
        with self._lock:
            # before anything else, since a capture overwrites the state
            replays = [self._replay_of(chunk.shape) for chunk in plan.chunks]
            for chunk, replay in zip(plan.chunks, replays, strict=True):
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
        """Give the sentences `order` their state in the first rows; set the other rows to zero."""
        for both, own, factor in ((self._h, start.h, 1.0), (self._c, start.c, 2.0)):
            both[:, :, :rows].zero_()
            for half, state in zip(both, own.chunk(2, dim=2), strict=True):
                torch.mul(state.index_select(1, order), factor, out=half[:, : len(order)])

    def _replay_of(self, shape: Shape) -> Callable[[], None]:
        if shape not in self._replays:
            try:
                self._replays[shape] = self._captured(shape)
            except CaptureError:
                raise
            except Exception as error:  # of torch, the driver or a compiler, of any kind
                raise CaptureError(f"{type(error).__name__}: {error}") from error
        return self._replays[shape]

    def _captured(self, shape: Shape) -> Callable[[], None]:
        """Capture a shape and check that its replay gives the same numbers."""
        compute = partial(self._advance, shape)
        replay = self._capturer.capture(compute)
        expected, found = self._tried(shape, compute), self._tried(shape, replay)
        if not torch.allclose(found, expected, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True):
            raise CaptureError(f"the replay of {shape} gives other numbers than the computation")
        return replay

    def _tried(self, shape: Shape, run: Callable[[], None]) -> Tensor:
        """Return everything that a run writes, when it starts from fixed numbers."""
        for buffer in (self._tokens, self._h, self._c):
            numbers = torch.arange(buffer.numel(), dtype=buffer.dtype, device=buffer.device)
            buffer.copy_(numbers.sin_().view_as(buffer))
        self._outputs.zero_()
        run()
        rows, count = shape.rows, 2 * shape.positions
        written = self._outputs[:, :count], self._h[:, :, :rows], self._c[:, :, :rows]
        return torch.cat([each.reshape(-1) for each in written])

    def _advance(self, shape: Shape) -> None:
        """Compute a chunk of this shape: the computation that is captured."""
        rows, count = shape.rows, 2 * shape.positions
        tokens = self._tokens[:count].chunk(2)
        outputs = self._outputs[:, :count].chunk(2, dim=1)
        h, c = self._h[:, :, :rows], self._c[:, :, :rows]
        self._capturer.both(
            lambda: self._ahead.advance(tokens[0], outputs[0], h[0], c[0]),
            lambda: self._behind.advance(tokens[1], outputs[1], h[1], c[1]),
        )
