"""A batch that is computed in blocks of time steps, and can stop after any step."""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from elmo_model.inference.cache import Lease, Tables, WordCache
from elmo_model.inference.cuda_graphs import StepGraphs, Windows, uploaded
from elmo_model.inference.linear import form_of
from elmo_model.inference.lstm import InferenceStack
from elmo_model.inference.precision import Precision
from elmo_model.inference.word_encoder import TokenVectors
from elmo_model.network.bilm import BiLM, Numbers, time_steps
from elmo_model.network.state import Representations, State
from elmo_model.threads import ParallelDirections, inference

BLOCK_STEPS = 64
"""Time steps of a block. A larger number takes more memory besides the output, 512 KiB a row at the
original size; blocks of 16 steps cost up to 18 % of the time."""

# From these sizes on a time step is long enough for each direction to have a core of its own; a
# shorter one is over before two threads have synchronised. Either the cell alone (its weights have
# to be fetched from memory), or rows x cell x projection (benchmarks/network.py). Larger numbers
# keep more batches on one core.
_LARGE_CELL, _LONG_STEP = 2048, 2_000_000
# On a CPU the input products of the first layer are computed once a distinct word of a block, where
# these fit in the cache, or where there are at most so many a position (else look-ups cost more
# than they save) and at most so many in all (they take memory besides the output); see
# benchmarks/network.py, "none" cached.
_REPEATED, _MOST_DISTINCT = 0.9, 1024

Steps = Generator[None, None, None]
"""One direction of a block, which stops after each time step of each layer; or both, in windows."""


def never_stop() -> bool:
    """Do not stop."""
    return False


class InferenceBiLM:
    """Both stacks of a trained biLM, in a precision, and the cache of their input products.

    On a CPU `projections` has at most `cache_bytes` bytes. On another device it holds nothing: a
    look-up there costs more than the product. On a CUDA device `graphs` compute the time steps.
    """

    def __init__(
        self,
        trained: BiLM,
        precision: Precision,
        directions: ParallelDirections,
        cache_bytes: int = 0,
    ) -> None:
        self.config, self.directions = trained.config, directions
        weights = [weight.detach() for weight in trained.parameters() if weight.dim() == 2]
        precision = form_of(precision, weights)
        trained_stacks = (trained.forward_stack, trained.backward_stack)
        self.stacks = [InferenceStack(stack, precision, directions) for stack in trained_stacks]
        like = self.project(weights[0].new_zeros(1, self.config.projection))
        self.is_on_cpu = like[0].device.type == "cpu"
        word_bytes = sum(each.nbytes for each in like)
        self.projections = WordCache(cache_bytes // word_bytes if self.is_on_cpu else 0, *like)
        self.graphs = StepGraphs(self.stacks) if StepGraphs.fit(self.stacks) else None

    def project(self, tokens: Tensor) -> Tables:
        """Map token vectors (m, P) to the input products (m, 4D) of both first layers."""
        return tuple(stack.layers[0].project(tokens) for stack in self.stacks)


@dataclass(frozen=True, slots=True)
class _Block:
    """Some time steps of both directions; `is_long` if each is worth a core for each direction."""

    directions: tuple[Steps, ...]
    is_long: bool


class BatchRun:
    """The computation of the layers of a batch, block by block, with the state carried exactly.

        run = encoder.encode(sentences)
        while not run.advance(stop):      # stop() was true after a time step
            ...                           # compute another batch with the same encoder
        vectors = run.representations.sentences()

    The vectors have the same bits however often the run stops. Memory besides the output is bounded
    by the block. A run is used by one thread at a time; the encoder may serve others meanwhile.
    """

    def __init__(
        self,
        bilm: InferenceBiLM,
        words: TokenVectors,
        lengths: Sequence[int],
        state: State,
        *,
        bounded: bool = False,
        block_steps: int = BLOCK_STEPS,
        words_left: Iterable[None] = (),
        layers: Tensor | None = None,
    ) -> None:
        """Prepare sentences of `lengths` words, from a state with a row for each sentence.

        `words_left` computes the vectors of `words`, part by part. `representations` are those of
        the whole batch, in `layers` (L + 1, N, 2P) where it is given; the vectors of steps that are
        not computed yet, or of sentences that were dropped, are undefined.
        """
        self._bilm, self._words = bilm, words
        shape = (bilm.config.layers + 1, len(words.index), 2 * words.vectors.shape[1])
        layers = words.vectors.new_empty(shape) if layers is None else layers
        self.representations = Representations(layers, tuple(lengths), bounded)
        self._words_left = iter(words_left)
        self._lengths: Numbers = np.array(lengths, dtype=np.int64)  # 0 when dropped
        self._starts: Numbers = np.cumsum(self._lengths) - self._lengths
        self._step, self._block_steps = 0, block_steps
        self._state = torch.cat(
            [torch.unflatten(each, 2, (2, -1)) for each in (state.h, state.c)], dim=3
        )
        self._block: _Block | None = None
        self._failure = ""

    @property
    def state(self) -> State:
        """The state after each sentence, once the run has ended."""
        width = self._words.vectors.shape[1]
        return State(self._state[..., :width].flatten(2), self._state[..., width:].flatten(2))

    def advance(self, stop: Callable[[], bool] = never_stop) -> bool:
        """Compute until the end or until `stop`; tell whether the end is reached.

        `stop` is called after each time step of each layer and direction, by two threads at once
        where each direction has a core of its own, or after each window of a graph, and after each
        part of the words. Each call computes at least one step, window or part. After an exception
        every further call raises RuntimeError: the vectors of the step that failed are undefined.
        """
        if self._failure:
            raise RuntimeError(f"this batch has failed before: {self._failure}; encode it again")
        try:
            with inference(self._words.vectors.device):
                return self._advance(stop)
        except BaseException as error:
            # its text alone: an exception holds the frames, which hold the memory of the batch
            self._failure = repr(error)
            raise

    def drop(self, sentences: Iterable[int]) -> None:
        """Drop sentences by index: they are not computed beyond the current block.

        A run with no sentence left is finished.
        """
        self._lengths[list(sentences)] = 0

    def _advance(self, stop: Callable[[], bool]) -> bool:
        for _ in self._words_left:
            if stop():
                return False
        while self._step < self._lengths.max(initial=0):
            block = self._block = self._block or self._next_block(stop)
            drives = [partial(_drive, steps, stop) for steps in block.directions]
            if len(drives) == 1 or not self._bilm.is_on_cpu:
                ended = tuple(drive() for drive in drives)
            elif block.is_long:
                ended = self._bilm.directions.run(*drives)
            else:
                ended = self._bilm.directions.run_on_one_core(*drives)
            if not all(ended):
                return False
            self._block = None
            self._step += self._block_steps
        self._block = None  # that of a batch without a sentence left, which refers to this object
        self._words = replace(self._words, lease=None)  # of no use for a run that is kept
        return True

    def _next_block(self, stop: Callable[[], bool]) -> _Block:
        """Pack the block that begins at the current step, and write its layer 0.

        Its windows are computed at once where `stop` is `never_stop`.
        """
        left = np.clip(self._lengths - self._step, 0, self._block_steps)
        if self._bilm.graphs is not None:
            windows = self._windows(self._bilm.graphs, left, at_once=stop is never_stop)
            return _Block((windows,), is_long=False)
        order, sizes, step, row = time_steps(left)
        step += self._step
        first, last = self._starts[row], self._starts[row] + self._lengths[row] - 1
        places = np.concatenate((first + step, last - step))  # forward, and then backward
        words = self._words.index[places]
        lease, known = self._look_up(words, places)

        layers, vectors = self.representations.layers, self._words.vectors
        rows, tokens, ids, inputs = uploaded(
            vectors.device, order[: sizes[0]], places, words, known
        )
        ahead = slice(0, len(step))
        token_layer = vectors.index_select(0, ids[ahead])
        for half in layers[0].chunk(2, dim=1):  # the token vector twice: every layer is 2P wide
            half.index_copy_(0, tokens[ahead], token_layer)

        packed = zip((0, 1), tokens.chunk(2), inputs.chunk(2), strict=True)
        forward, backward = (self._steps(sizes, rows, lease, *each) for each in packed)
        cell, width = self._bilm.config.cell, self._bilm.config.projection
        is_long = cell >= _LARGE_CELL or len(step) / len(sizes) * cell * width >= _LONG_STEP
        return _Block((forward, backward), is_long)

    def _windows(self, graphs: StepGraphs, left: Numbers, *, at_once: bool) -> Steps:
        """Compute `left` tokens of each row by graphs, both directions at once, with layer 0."""
        first, last = self._starts + self._step, self._starts + self._lengths - 1 - self._step
        words, layers = self._words, self.representations.layers
        for windows in Windows.of(left, first, last, graphs.rows):
            given = windows, words.vectors, words.index, self._state, layers
            yield from graphs.run(*given, at_once=at_once)

    def _look_up(self, words: Numbers, places: Numbers) -> tuple[Lease | None, Numbers]:
        """Look up the input products of a block's words; return them, and the row of each position.

        `words` and `places` (2 x positions,) are the word and the token of each position of both
        directions. Returns None and the words where the products are to be computed once a
        position.
        """
        bilm = self._bilm
        if not bilm.is_on_cpu:
            return None, words
        distinct, place = np.unique(words, return_inverse=True)
        most = min(_MOST_DISTINCT, _REPEATED * len(words) / 2)
        if len(distinct) > max(most, bilm.projections.capacity):
            return None, words
        vectors = self._words.vectors.index_select(0, torch.from_numpy(distinct))
        token = np.empty_like(distinct)  # one of those that have the word
        token[place] = places
        lease = bilm.projections.look_up(
            [self._words.tokens[each] for each in token],
            lambda missing: bilm.project(vectors[list(missing)]),
        )
        return lease, lease.rows[place]

    def _steps(
        self,
        sizes: Sequence[int],
        rows: Tensor,
        lease: Lease | None,
        direction: int,
        tokens: Tensor,
        inputs: Tensor,
    ) -> Steps:
        """Compute one direction of a block, packed as by `time_steps`, and write its results.

        `rows` are those of the batch that the block has, longest first. `tokens` and `inputs`
        (positions,) are the token of each position, and the row of its input products, or of its
        vector without a lease of products.
        """
        width = self._words.vectors.shape[1]
        state = [self._state[:, :, direction, each] for each in (slice(width), slice(width, None))]
        h, c = (values.index_select(1, rows) for values in state)
        stack = self._bilm.stacks[direction]
        if lease is None:
            vectors = self._words.vectors.index_select(0, inputs)
            outputs, h, c = yield from stack.run(vectors, sizes, h, c)
        else:
            products = partial(torch.index_select, lease.tables[direction], 0)
            outputs, h, c = yield from stack.run(inputs, sizes, h, c, products)
        for layer, output in zip(self.representations.layers[1:], outputs, strict=True):
            layer.chunk(2, dim=1)[direction].index_copy_(0, tokens, output)
        for values, new in zip(state, (h, c), strict=True):
            values.index_copy_(1, rows, new)


def _drive(steps: Steps, stop: Callable[[], bool]) -> bool:
    """Compute step by step until the end or until `stop`; tell whether the end is reached."""
    return not any(stop() for _ in steps)
