"""The biLM for inference: fast products, known input products, two directions in parallel."""

from collections.abc import Sequence

from torch import Tensor

from elmo_model.inference.caches import KnownProjections, Projections
from elmo_model.inference.parallel_directions import ParallelDirections
from elmo_model.inference.precision import Precision
from elmo_model.inference.stack import InferenceStack
from elmo_model.inference.word_encoder import DistinctWords
from elmo_model.network.bilm import BiLM
from elmo_model.network.packing import Packing
from elmo_model.network.state import DirectionState, State

# From these sizes on a time step is long enough for each direction to have a core of its own; a
# shorter one is over before two threads have synchronised. Either the cell alone (its weights have
# to be fetched from memory), or rows x cell x projection (benchmarks/network.py). Larger numbers
# keep more batches on one core.
_LARGE_CELL, _LONG_STEP = 2048, 2_000_000
# When the input products of the first layer are computed once a distinct word instead of once a
# token: at most this many distinct words a token, since looking them up costs time too, and at most
# this many in all, which bounds their memory (benchmarks/network.py, "none" cached).
_REPEATED, _MOST_DISTINCT = 0.9, 2048


class InferenceBiLM:
    """Both stacks of a trained biLM over sentences of any lengths, in a precision."""

    def __init__(self, trained: BiLM, precision: Precision, directions: ParallelDirections) -> None:
        self.config = trained.config
        self.forward_stack = InferenceStack(trained.forward_stack, precision)
        self.backward_stack = InferenceStack(trained.backward_stack, precision)
        self._directions = directions

    def encode(
        self,
        words: DistinctWords,
        lengths: Sequence[int],
        state: State,
        known: KnownProjections | None = None,
    ) -> tuple[Tensor, State]:
        """Map the N words of all sentences to all layers (L + 1, N, 2P), and the state after.

        As `layers.bilm.BiLM.forward`. `known` are the input products of the distinct words.
        """
        vectors = words.everywhere()  # (N, P)
        width = vectors.shape[1]
        layers = vectors.new_empty(self.config.layers + 1, len(vectors), 2 * width)
        # Layer 0 is the token vector twice, so that every layer is 2P wide.
        layers[0, :, :width] = layers[0, :, width:] = vectors
        if not lengths:
            return layers, state
        packing = Packing.of(lengths, vectors.device)
        past, future = state.take(len(lengths)).directions()

        def ahead() -> DirectionState:
            inputs = self._inputs(self.forward_stack, 0, vectors, words, known)
            target = layers[1:, :, :width]
            return _run(self.forward_stack, inputs, packing, packing.forward, past, target)

        def behind() -> DirectionState:
            inputs = self._inputs(self.backward_stack, 1, vectors, words, known)
            target = layers[1:, :, width:]
            return _run(self.backward_stack, inputs, packing, packing.backward, future, target)

        if vectors.device.type != "cpu":
            after = ahead(), behind()
        elif self._is_long(len(vectors) / len(packing.sizes)):
            after = self._directions.run(ahead, behind)
        else:
            after = self._directions.run_on_one_core(ahead, behind)
        return layers, state.carry(State.join(*after))

    def project(self, tokens: Tensor) -> Projections:
        """Map token vectors (m, P) to the input products (m, 4D) of both first layers."""
        forward, backward = self.forward_stack.layers[0], self.backward_stack.layers[0]
        return forward.project(tokens), backward.project(tokens)

    def opening_state(self, boundaries: DistinctWords) -> State:
        """Map the begin and the end boundary to the state, one row, at a sentence's first word.

        The forward direction has seen the begin boundary, the backward one the end boundary.
        """
        zero = State.zero(self.config, boundaries.vectors, 2)
        _, after = self.encode(boundaries, [1, 1], zero)
        (begin_h, begin_c), (end_h, end_c) = after.directions()
        return State.join((begin_h[:, :1], begin_c[:, :1]), (end_h[:, 1:], end_c[:, 1:]))

    def _inputs(
        self,
        stack: InferenceStack,
        direction: int,
        vectors: Tensor,
        words: DistinctWords,
        known: KnownProjections | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the inputs of a stack: vectors (N, P); or rows (N,) and products (m, 4D)."""
        if known is not None:
            return known.rows.index_select(0, words.index), known.tables[direction]
        distinct, cpu = len(words.vectors), vectors.device.type == "cpu"
        if cpu and distinct <= min(_MOST_DISTINCT, _REPEATED * len(vectors)):
            return words.index, stack.layers[0].project(words.vectors)
        return vectors, None

    def _is_long(self, rows: float) -> bool:
        """Tell whether a time step of so many rows is worth a core for each direction."""
        cell, width = self.config.cell, self.config.projection
        return cell >= _LARGE_CELL or rows * cell * width >= _LONG_STEP


def _run(
    stack: InferenceStack,
    inputs: tuple[Tensor, Tensor | None],
    packing: Packing,
    positions: Tensor,
    state: DirectionState,
    target: Tensor,
) -> DirectionState:
    """Run one direction, write its vectors to `target` (L, N, P) and return the state after."""
    tokens, projected = inputs
    h, c = (values.index_select(1, packing.order) for values in state)
    outputs, h, c = stack.run(tokens[positions], packing.sizes, h, c, projected)
    for layer, output in zip(target, outputs, strict=True):
        layer.index_copy_(0, positions, output)
    return h.index_select(1, packing.rank), c.index_select(1, packing.rank)
