"""How sentences of different lengths share a batch without padding."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Packing:
    """Sentences, longest first, cut into time steps: step t holds the rows longer than t.

    `sizes` are the rows of each step and never rise, so a sentence that has ended takes part in no
    further product. `order` (rows,) lists the sentences from longest to shortest and `rank` (rows,)
    undoes it. `forward` and `backward` (N,) give, for each packed position, the number of the token
    among those of all sentences one after another. The backward direction mirrors each sentence
    within its own length, so it never meets the tokens of another sentence.
    """

    sizes: tuple[int, ...]
    order: Tensor
    rank: Tensor
    forward: Tensor
    backward: Tensor

    @classmethod
    def of(cls, lengths: Sequence[int], device: torch.device) -> "Packing":
        """Pack sentences of these lengths, each at least 1."""
        length = np.asarray(lengths, dtype=np.int64)
        order = np.argsort(-length, kind="stable")
        descending = length[order]
        steps = int(descending[0]) if len(descending) else 0
        # rows at step t = sentences longer than t
        sizes = np.searchsorted(-descending, -np.arange(steps), side="left")
        first = np.cumsum(sizes) - sizes
        step = np.repeat(np.arange(steps), sizes)
        row = np.arange(len(step)) - np.repeat(first, sizes)
        start = (np.cumsum(length) - length)[order]
        forward = start[row] + step
        backward = start[row] + descending[row] - 1 - step
        indices = (order, np.argsort(order), forward, backward)
        return cls(
            tuple(sizes.tolist()),
            *(torch.from_numpy(index).to(device, non_blocking=True) for index in indices),
        )
