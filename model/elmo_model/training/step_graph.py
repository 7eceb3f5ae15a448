"""A training step as one CUDA graph: a GPU computes a step in less time than it is launched in."""

from collections.abc import Callable

import torch
from torch import Tensor

from elmo_model.inference.graphs import Capture, GraphCapture
from elmo_model.training.batches import Batch

Learn = Callable[[Batch], tuple[Tensor, Tensor]]
"""Take a step on a batch on the device; return the losses and the norm of the gradient."""


class StepGraph:
    """Takes steps as one launch each, by a graph that is captured anew for batches of other shapes.

    What changes from step to step must be in tensors that stay where they are: weights, rates,
    state, and the batch, which is copied to where the graph reads it.
    """

    def __init__(
        self,
        learn: Learn,
        device: torch.device,
        captures: Callable[[torch.device], Capture] = GraphCapture,
    ) -> None:
        """Take steps by `learn`. `captures` is for a device without graphs."""
        self._learn, self._device, self._captures = learn, device, captures
        self._replay: Callable[[], None] | None = None
        self._batch: Batch | None = None
        self._found: list[tuple[Tensor, Tensor]] = []

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Take a step on a batch in host memory; return copies of what `learn` returns."""
        if self._batch is not None and _shapes(self._batch) == _shapes(batch):
            assert self._replay  # for mypy
            for own, given in zip(self._batch.tensors, batch.tensors, strict=True):
                own.copy_(given, non_blocking=True)
            self._replay()
            losses, norm = self._found[-1]
        else:
            self._replay = None  # frees the memory of the graph before
            self._found.clear()
            self._batch = batch.to(self._device)
            self._replay = self._captures(self._device)(self._take)
            losses, norm = self._found[0]  # of the step that a capture takes first
        return losses.clone(), norm.clone()

    def _take(self) -> None:
        assert self._batch  # for mypy
        self._found.append(self._learn(self._batch))


def _shapes(batch: Batch) -> list[torch.Size]:
    return [values.shape for values in batch.tensors]
