"""The biLM for inference: fast products, known input products, two directions in parallel."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from elmo_model.inference.caches import KnownProjections, Projections
from elmo_model.inference.linear import form_of
from elmo_model.inference.lstm import InferenceLSTM, InferenceStack
from elmo_model.inference.precision import Precision
from elmo_model.inference.threads import ParallelDirections
from elmo_model.inference.word_encoder import DistinctWords
from elmo_model.network.bilm import BiLM
from elmo_model.network.state import DirectionState

# From these sizes on a time step is long enough for each direction to have a core of its own; a
# shorter one is over before two threads have synchronised. Either the cell alone (its weights have
# to be fetched from memory), or rows x cell x projection (benchmarks/network.py). Larger numbers
# keep more batches on one core.
_LARGE_CELL, _LONG_STEP = 2048, 2_000_000
# When the input products of the first layer are computed once a distinct word instead of once a
# token: at most this many distinct words a token, since looking them up costs time too, and at most
# this many in all, which bounds their memory (benchmarks/network.py, "none" cached).
_REPEATED, _MOST_DISTINCT = 0.9, 1024


@dataclass(frozen=True, slots=True)
class Rows:
    """Some time steps of one direction, whose rows are packed as by `network.packing.Packing`.

    `sizes` are the rows of each step, `tokens` (positions,) the number of the token at each packed
    position and `words` (positions,) its row among the distinct words. h (L, rows, P) and
    c (L, rows, D) are the state before.
    """

    sizes: Sequence[int]
    tokens: Tensor
    words: Tensor
    state: DirectionState


class BlockRun:
    """The computation of one block of time steps in both directions; it stops after any step."""

    def __init__(
        self,
        bilm: "InferenceBiLM",
        words: DistinctWords,
        rows: tuple[Rows, Rows],
        layers: Tensor,
    ) -> None:
        """Compute forward and backward rows of distinct words, into `layers` (L + 1, N, 2P)."""
        self.words = words
        self._bilm = bilm
        self._vectors = vectors = words.vectors
        positions = len(rows[0].tokens)
        self._long = bilm.is_long(positions / len(rows[0].sizes))
        is_repeated = len(vectors) <= min(_MOST_DISTINCT, _REPEATED * positions)
        self._repeated = is_repeated and vectors.device.type == "cpu"
        self._products = [
            _Products(stack.layers[0], vectors, own.words)
            for stack, own in zip((bilm.forward_stack, bilm.backward_stack), rows, strict=True)
        ]
        self._rows = rows
        self.after = [rows[0].state, rows[1].state]
        """The state after each row's own last step, once the block is computed."""
        self._layers = layers
        self._runs: list[Generator[None, None, None]] | None = None

    def advance(self, known: KnownProjections | None, stop: Callable[[], bool]) -> bool:
        """Compute until the end of the block or until `stop`; tell whether the end is reached.

        Each direction computes one time step or more. `known` are the input products of the
        distinct words for this call; a later call may have others, or None.
        """
        if self._runs is None:  # products are looked up if they are known from the beginning
            looks_up = known is not None or self._repeated
            self._runs = [self._run(direction, looks_up) for direction in (0, 1)]
        for direction, products in enumerate(self._products):
            products.take(None if known is None else (known.tables[direction], known.rows))
        forward, backward = (partial(_drive, run, stop) for run in self._runs)
        if self._vectors.device.type != "cpu":
            return all((forward(), backward()))
        directions = self._bilm.directions
        run = directions.run if self._long else directions.run_on_one_core
        return all(run(forward, backward))

    def _run(self, direction: int, looks_up: bool) -> Generator[None, None, None]:
        rows, width = self._rows[direction], self._vectors.shape[1]
        if direction == 0:  # layer 0 is the token vector twice, so that every layer is 2P wide
            own = self._vectors.index_select(0, rows.words)
            self._layers[0, :, :width].index_copy_(0, rows.tokens, own)
            self._layers[0, :, width:].index_copy_(0, rows.tokens, own)
        stack = (self._bilm.forward_stack, self._bilm.backward_stack)[direction]
        products = self._products[direction]
        inputs = products.ids if looks_up else self._vectors.index_select(0, rows.words)
        gates = products.look_up if looks_up else None
        outputs, h, c = yield from stack.run(inputs, rows.sizes, *rows.state, gates)
        half = self._layers[1:, :, direction * width : (direction + 1) * width]
        for layer, output in zip(half, outputs, strict=True):
            layer.index_copy_(0, rows.tokens, output)
        self.after[direction] = h, c


class InferenceBiLM:
    """Both stacks of a trained biLM over sentences of any lengths, in a precision."""

    def __init__(self, trained: BiLM, precision: Precision, directions: ParallelDirections) -> None:
        self.config = trained.config
        weights = [weight.detach() for weight in trained.parameters() if weight.dim() == 2]
        precision = form_of(precision, weights)
        self.forward_stack = InferenceStack(trained.forward_stack, precision, directions)
        self.backward_stack = InferenceStack(trained.backward_stack, precision, directions)
        self.directions = directions

    def project(self, tokens: Tensor) -> Projections:
        """Map token vectors (m, P) to the input products (m, 4D) of both first layers."""
        forward, backward = self.forward_stack.layers[0], self.backward_stack.layers[0]
        return forward.project(tokens), backward.project(tokens)

    def is_long(self, rows: float) -> bool:
        """Tell whether a time step of so many rows is worth a core for each direction."""
        cell, width = self.config.cell, self.config.projection
        return cell >= _LARGE_CELL or rows * cell * width >= _LONG_STEP


class _Products:
    """The input products of a block in one direction: known ones, or computed once a word.

    `ids` (positions,) are the rows of the table that the positions have now.
    """

    def __init__(self, first: InferenceLSTM, vectors: Tensor, words: Tensor) -> None:
        """Take the vectors of the distinct words, and the word of each position (positions,)."""
        self._first = first
        self._vectors = vectors
        self._words = words
        self._computed: Tensor | None = None
        self._table: Tensor | None = None
        self.ids = words.clone()

    def take(self, known: tuple[Tensor, Tensor] | None) -> None:
        """Look up in a table (rows, 4D) with the rows of the words, or in what is computed."""
        if known is None:
            self._table = self._computed
            self.ids.copy_(self._words)
        else:
            self._table, rows = known
            torch.index_select(rows, 0, self._words, out=self.ids)

    def look_up(self, ids: Tensor) -> Tensor:
        """Map some of `ids` (n,) to input products (n, 4D)."""
        if self._table is None:
            self._table = self._computed = self._first.project(self._vectors)
        return self._table.index_select(0, ids)


def _drive(steps: Generator[None, None, None], stop: Callable[[], bool]) -> bool:
    """Compute step by step until the end or until `stop`; tell whether the end is reached."""
    return not any(stop() for _ in steps)
