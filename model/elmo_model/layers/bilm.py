"""The biLM: two independent stacks of LSTMs, one from each end of the sentence."""

from collections.abc import Callable, Sequence
from typing import Self

import torch
from torch import Tensor, nn

from elmo_model.config import LSTMConfig
from elmo_model.inference.cuda_graphs.gates import fastest
from elmo_model.inference.cuda_graphs.graphs import Graphs
from elmo_model.inference.cuda_graphs.reader import ChunkedReader, Recorder
from elmo_model.inference.cuda_graphs.recordings import Recordings
from elmo_model.inference.input_projection_cache import Gates, KnownGates
from elmo_model.inference.linear import Precision
from elmo_model.inference.parallel_directions import on_one_core, one_after_the_other, side_by_side
from elmo_model.layers.packing import Packing
from elmo_model.layers.stack import Stack
from elmo_model.state import State

# From here on a time step is long enough for a core of its own for each direction; a shorter one is
# over before two threads have agreed on whose turn it is. By the weights alone, which have to be
# fetched, or by rows x cell x projection.
_LARGE_CELL, _LONG_STEP = 2048, 2_000_000
# Distinct tokens of which the first layer's gates are made beforehand: at most so many a place, or
# it does not pay, and so many in all, or they take too much memory.
_REPEATED, _MOST_DISTINCT = 0.9, 2048


class BiLM(nn.Module):
    """Both stacks over sentences of any lengths; no sentence changes another's numbers."""

    def __init__(self, config: LSTMConfig, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.forward_stack = Stack(config, dropout)
        self.backward_stack = Stack(config, dropout)
        self.recordings = Recordings()

    def forward(
        self,
        tokens: Tensor,
        lengths: Sequence[int],
        state: State | None = None,
        index: Tensor | None = None,
        known: KnownGates | None = None,
    ) -> tuple[Tensor, State]:
        """Map the tokens of all sentences, one after another, (N, P) to (L + 1, N, 2P).

        `lengths` are the tokens of each sentence, at least 1, N together. Layer 0 is the token
        vector twice. With `index` (N,) the tokens are (distinct, P) and it says which of them
        stands where: what the first layer makes of a token alone is then made once for several
        places, or not at all where it is `known` of each of them. `state` holds a row for each
        place in the batch; without one, as for rows beyond it, all is zero. The state that comes
        back keeps rows beyond the batch as they were.
        """
        before = self.zero_state(tokens, 0) if state is None else state
        width, rows = tokens.shape[1], len(lengths)
        places = len(tokens) if index is None else len(index)
        layers = tokens.new_empty(self.config.layers + 1, places, 2 * width)
        if not rows:
            return layers, before
        everywhere = tokens if index is None else tokens.index_select(0, index)
        layers[0, :, :width] = layers[0, :, width:] = everywhere
        if known is not None and index is not None:
            index = known.rows.index_select(0, index)
        elif not self._repays(tokens, places):
            tokens, index = everywhere, None
        packing = Packing.of(lengths, tokens.device)
        start = before.take(rows)

        def read(stack: Stack, half: int, positions: Tensor) -> tuple[Tensor, Tensor]:
            """Let one direction read; its vectors go to their places, its state comes back."""
            h = start.h.chunk(2, dim=2)[half].index_select(1, packing.order)
            c = start.c.chunk(2, dim=2)[half].index_select(1, packing.order)
            if index is None:
                outputs, h, c = stack(tokens[positions], packing.sizes, h, c)
            else:
                gates = stack.gates_of(tokens) if known is None else known.tables[half]
                outputs, h, c = stack(index[positions], packing.sizes, h, c, gates)
            columns = slice(half * width, (half + 1) * width)
            for layer, output in enumerate(outputs, start=1):
                layers[layer, :, columns].index_copy_(0, positions, output.to(layers.dtype))
            return h.index_select(1, packing.rank), c.index_select(1, packing.rank)

        if tokens.device.type != "cpu":
            both = one_after_the_other
        else:
            both = side_by_side if self._is_long(places / len(packing.sizes)) else on_one_core
        ahead, behind = both(
            lambda: read(self.forward_stack, 0, packing.forward),
            lambda: read(self.backward_stack, 1, packing.backward),
        )
        h, c = (torch.cat(halves, dim=2) for halves in zip(ahead, behind, strict=True))
        return layers, before.carry(State(h, c))

    def read(
        self,
        tokens: Tensor,
        lengths: Sequence[int],
        state: State | None = None,
        index: Tensor | None = None,
        known: KnownGates | None = None,
    ) -> Tensor:
        """As `forward`, without the state after: in inference mode by recordings, if any."""
        layers: Tensor | None = None
        if self.recordings.are_used and lengths and torch.is_inference_mode_enabled():
            everywhere = tokens if index is None else tokens.index_select(0, index)
            start = self.zero_state(tokens, 0) if state is None else state
            layers = self.recordings.read(everywhere, lengths, start.take(len(lengths)))
        if layers is None:
            layers, _ = self(tokens, lengths, state, index, known)
        return layers

    def record_by(self, recorder: Recorder) -> None:
        """Let `read` go by recordings of this kind. Of a network prepared with plain products."""
        bias = self.forward_stack.get_buffer("layers.0.bias")
        reader = ChunkedReader(
            self.config, self.forward_stack, self.backward_stack, recorder, fastest(bias)
        )
        self.recordings.use(reader)

    def gates_of(self, tokens: Tensor) -> Gates:
        """Map token vectors (m, P) to what both first layers' gates get from them, prepared."""
        return self.forward_stack.gates_of(tokens), self.backward_stack.gates_of(tokens)

    def _repays(self, distinct: Tensor, places: int) -> bool:
        """Say whether gates are made a distinct token rather than a place."""
        return (
            self.forward_stack.is_prepared
            and distinct.device.type == "cpu"
            and len(distinct) <= min(_MOST_DISTINCT, _REPEATED * places)
        )

    def _is_long(self, rows: float) -> bool:
        """Say whether a time step of so many rows is worth a core for each direction."""
        cell, width = self.config.cell, self.config.projection
        return cell >= _LARGE_CELL or rows * cell * width >= _LONG_STEP

    def opening_state(self, boundaries: Tensor) -> State:
        """Map the vectors (2, P) of the first and the last boundary to a state of one row.

        It is that of the forward direction after the one, and of the backward one after the other.
        """
        _, after = self(boundaries, [1, 1])
        h, c = (
            torch.cat((both[:, :1].chunk(2, dim=2)[0], both[:, 1:].chunk(2, dim=2)[1]), dim=2)
            for both in (after.h, after.c)
        )
        return State(h, c)

    def zero_state(self, like: Tensor, rows: int) -> State:
        """Return the state before anything was read, of the type and on the device of `like`."""
        config = self.config
        return State(
            like.new_zeros(config.layers, rows, 2 * config.projection),
            like.new_zeros(config.layers, rows, 2 * config.cell),
        )

    def prepare(self, precision: Precision) -> None:
        """Exchange all layers for their inference forms; on a CUDA device `read` is recorded."""
        self.forward_stack.prepare(precision)
        self.backward_stack.prepare(precision)
        self._record_on_cuda()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._record_on_cuda()  # what was recorded reads memory that is given up
        return self

    def _record_on_cuda(self) -> None:
        self.recordings.use(None)
        if self.forward_stack.is_prepared:
            device = self.forward_stack.get_buffer("layers.0.bias").device
            if device.type == "cuda":
                self.record_by(Graphs(device))
