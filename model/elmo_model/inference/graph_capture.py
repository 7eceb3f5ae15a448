"""The capture of a CUDA graph: a computation is recorded once and then launched as a whole."""

import threading
from collections.abc import Callable

import torch

Capture = Callable[[Callable[[], None]], Callable[[], None]]
"""Map a computation on tensors that stay in place to one that repeats it."""


class GraphCapture:
    """Captures CUDA graphs, by default with one memory for what lies between inputs and outputs.

    All captures take place on one stream: torch has 32 of them, and each that computes keeps a
    workspace of its own. With `shares_memory` false each graph has a pool of its own, which is
    freed with the graph.
    """

    _one_at_a_time = threading.Lock()  # in a process, says torch

    def __init__(self, device: torch.device, *, shares_memory: bool = True) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle() if shares_memory else None
        # torch's own is one of the whole process, on the device that had the first graph
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __call__(self, compute: Callable[[], None]) -> Callable[[], None]:
        """Compute once, capture, and return the replay.

        Raises torch.OutOfMemoryError also where the lack of memory has invalidated the capture.
        """
        with self._one_at_a_time, torch.cuda.device(self._device):
            own, current = self._stream, torch.cuda.current_stream()
            own.wait_stream(current)
            try:
                with torch.cuda.stream(own):
                    compute()  # libraries allocate in their first calls, which a graph cannot
            finally:  # a failed computation has launched operations, too
                current.wait_stream(own)
            try:
                return self._captured(compute)
            except RuntimeError as error:
                if self._pool is not None:  # torch may refuse the pool of a failed capture
                    self._pool = torch.cuda.graph_pool_handle()
                if isinstance(error.__context__, torch.OutOfMemoryError):
                    raise error.__context__ from None
                raise

    def _captured(self, compute: Callable[[], None]) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        # The outer context restores the stream: torch.cuda.graph does not if the capture's end
        # raises. Other threads go on meanwhile: one may register memory or allocate.
        with (
            torch.cuda.stream(torch.cuda.current_stream()),
            torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local"),
        ):
            compute()
        return graph.replay
