"""A training step as one CUDA graph: a GPU computes a step in less time than it is launched in."""

from collections.abc import Callable

import torch
from torch import Tensor

from elmo_model.inference.graph_capture import Capture, GraphCapture
from elmo_model.training.batches import Batch

Learn = Callable[[Batch], tuple[Tensor, Tensor]]
"""Take a step on a batch on the device; return the losses and the norm of the gradient."""


def graph_capture(device: torch.device) -> Capture:
    """Return captures on one stream, each with memory of its own, as its graph replaces another."""
    return GraphCapture(device, shares_memory=False)


class StepGraph:
    """Takes steps as one launch each, by a graph that is captured anew for batches of other shapes.

    What changes from step to step must be in tensors that stay where they are: weights, rates,
    state, and the batch, which is copied to where the graph reads it.
    """

    def __init__(
        self,
        learn: Learn,
        device: torch.device,
        captures: Callable[[torch.device], Capture] = graph_capture,
    ) -> None:
        """Take steps by `learn`. `captures` is for a device without graphs."""
        self._learn, self._device, self._capture = learn, device, captures(device)
        self._captured: tuple[Batch, Callable[[], None], list[tuple[Tensor, Tensor]]] | None = None

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Take a step on a batch in host memory; return copies of what `learn` returns."""
        if self._captured is None or _shapes(self._captured[0]) != _shapes(batch):
            self._captured = None  # frees the memory of the graph before
            own, found = batch.to(self._device), list[tuple[Tensor, Tensor]]()
            replay = self._capture(lambda: found.append(self._learn(own)))
            self._captured = own, replay, found
            losses, norm = found[0]  # of the step that a capture takes first
        else:
            own, replay, found = self._captured
            for held, given in zip(own.tensors, batch.tensors, strict=True):
                held.copy_(given, non_blocking=True)
            replay()
            losses, norm = found[-1]
        return losses.clone(), norm.clone()


def _shapes(batch: Batch) -> list[torch.Size]:
    return [values.shape for values in batch.tensors]
