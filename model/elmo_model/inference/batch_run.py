"""A batch that is computed in blocks of time steps, and can stop after any step."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.inference.bilm import BlockRun, InferenceBiLM, Rows
from elmo_model.inference.caches import InputProjectionCache, Projections
from elmo_model.inference.word_encoder import DistinctWords
from elmo_model.network.state import Representations, State

BLOCK_STEPS = 64
"""Time steps of a block. A larger number takes more memory besides the output, 512 KiB a row at the
original size; blocks of 16 steps cost up to 18 % of the time."""

Numbers = NDArray[np.int64]


def never() -> bool:
    """Do not stop."""
    return False


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
        words: DistinctWords,
        lengths: Sequence[int],
        state: State,
        *,
        projections: InputProjectionCache | None = None,
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
        self._bilm, self._words, self._projections = bilm, words, projections
        shape = (bilm.config.layers + 1, len(words.index), 2 * words.vectors.shape[1])
        layers = words.vectors.new_empty(shape) if layers is None else layers
        self.representations = Representations(layers, tuple(lengths), bounded)
        self._words_left = iter(words_left)
        self._lengths: Numbers = np.array(lengths, dtype=np.int64)  # 0 when dropped
        self._starts: Numbers = np.cumsum(self._lengths) - self._lengths
        self._step, self._block_steps = 0, block_steps
        # h (L, rows, P) and c (L, rows, D) of the forward and of the backward direction
        self._forward, self._backward = ((h.clone(), c.clone()) for h, c in state.directions())
        self._block: BlockRun | None = None
        self._live = torch.empty(0)  # the numbers of the sentences of the block

    @property
    def state(self) -> State:
        """The state after each sentence, once the run has ended."""
        return State.join(self._forward, self._backward)

    def advance(self, stop: Callable[[], bool] = never) -> bool:
        """Compute until the end or until `stop`; tell whether the end is reached.

        `stop` is called after each time step of each layer and direction, by two threads at once
        where each direction has a core of its own, and after each part of the words. Each call
        computes at least one step or part.
        """
        with torch.inference_mode():
            for _ in self._words_left:
                if stop():
                    return False
            while self._step < self._lengths.max(initial=0):
                self._block = self._block or self._next_block()
                if not self._advance(self._block, stop):
                    return False
                self._keep(self._block)
                self._block = None
                self._step += self._block_steps
            return True

    def drop(self, sentences: Iterable[int]) -> None:
        """Compute some sentences, by their numbers in the batch, no further than this block.

        A run without other sentences has ended at once.
        """
        self._lengths[list(sentences)] = 0

    def _advance(self, block: BlockRun, stop: Callable[[], bool]) -> bool:
        def project(places: Sequence[int]) -> Projections:
            return self._bilm.project(block.words.vectors[list(places)])

        if self._projections is None:
            return block.advance(None, stop)
        # The cache is not held between calls, so that other batches can use it meanwhile.
        with self._projections.hold(block.words.words, project) as known:
            return block.advance(known, stop)

    def _next_block(self) -> BlockRun:
        """Pack the block that begins at the current step, as `network.packing.Packing` packs."""
        end = min(self._step + self._block_steps, int(self._lengths.max()))
        order = np.argsort(-self._lengths, kind="stable")
        descending = self._lengths[order]
        sizes = np.searchsorted(-descending, -np.arange(self._step, end), side="left")
        step = np.repeat(np.arange(self._step, end), sizes)
        row = np.arange(len(step)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        start = self._starts[order][row]
        tokens = start + step, start + descending[row] - 1 - step
        device = self._words.vectors.device
        self._live = torch.from_numpy(order[: sizes[0]]).to(device)
        words = self._words_of(tokens)
        halves = torch.from_numpy(words.index).to(device, non_blocking=True).chunk(2)
        rows = [
            Rows(
                sizes.tolist(),
                torch.from_numpy(own).to(device, non_blocking=True),
                half,
                (h.index_select(1, self._live), c.index_select(1, self._live)),
            )
            for own, half, (h, c) in zip(
                tokens, halves, (self._forward, self._backward), strict=True
            )
        ]
        return BlockRun(self._bilm, words, (rows[0], rows[1]), self.representations.layers)

    def _words_of(self, tokens: tuple[Numbers, Numbers]) -> DistinctWords:
        """Return the distinct words of a block, and their numbers for both directions in turn."""
        words, numbers = self._words, self._words.index[np.concatenate(tokens)]
        if len(tokens[0]) == len(words.index):  # one block has all tokens
            return DistinctWords(words.words, words.vectors, numbers)
        found, own = np.unique(numbers, return_inverse=True)
        vectors = words.vectors[torch.from_numpy(found).to(words.vectors.device)]
        return DistinctWords(tuple(words.words[number] for number in found), vectors, own)

    def _keep(self, block: BlockRun) -> None:
        """Write the state after a block to the rows of the batch."""
        for before, after in zip((self._forward, self._backward), block.after, strict=True):
            for values, new in zip(before, after, strict=True):
                values.index_copy_(1, self._live, new)
