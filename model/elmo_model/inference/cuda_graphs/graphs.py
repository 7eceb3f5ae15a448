"""Recordings as CUDA graphs: a chunk's hundreds of kernels become one launch."""

from collections.abc import Callable
from contextlib import suppress
from threading import Lock

import torch

# One capture at a time in a process is torch's rule.
_CAPTURE = Lock()
_WARM_UPS = 2


class Graphs:
    """Records on one device, all graphs on the same two streams and from one pool of memory.

    A graph reads and writes what its caller keeps, and what it allocates is of no use after it: so
    graphs can share that memory and be replayed in any order, one at a time. They are kept until
    all of them go: torch gives back the workspaces of a stream's products with the first graph
    that goes, whoever else was recorded with them.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream, self._side = (
            torch.cuda.Stream(device),  # type: ignore[no-untyped-call]
            torch.cuda.Stream(device),  # type: ignore[no-untyped-call]
        )
        self._pool = torch.cuda.graph_pool_handle()
        self._graphs: list[torch.cuda.CUDAGraph] = []

    def both(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        """Compute the first on the current stream and the second beside it."""
        current = torch.cuda.current_stream(self._device)
        self._side.wait_stream(current)
        first()
        with torch.cuda.stream(self._side):
            second()
        current.wait_stream(self._side)

    def record(self, compute: Callable[[], None]) -> Callable[[], None]:
        """Capture `compute`, after some runs of it, and return its replay.

        After these, workspaces are there, kernels chosen and compiled, and memory that is missing
        was missed outside of the capture. A replay goes to the stream that is current then.
        """
        with _CAPTURE, torch.cuda.device(self._device):
            current = torch.cuda.current_stream()
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                for _ in range(_WARM_UPS):
                    compute()
            current.wait_stream(self._stream)
            try:
                # the outer one: a capture that fails leaves its own stream the current one
                with torch.cuda.stream(current):
                    graph = self._captured(compute)
            except Exception:
                self._end_failed_capture()
                raise
        self._graphs.append(graph)
        return graph.replay

    def _captured(self, compute: Callable[[], None]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(
            graph,
            pool=self._pool,
            stream=self._stream,
            capture_error_mode="thread_local",
        ):
            compute()
        return graph

    def _end_failed_capture(self) -> None:
        """Tell the allocator that a capture is over: torch does so of those alone that succeed.

        Until then it gives no memory back, and `empty_cache` raises.
        """
        with suppress(AttributeError, RuntimeError):  # no public interface; or it was over
            torch._C._cuda_endAllocateToPool(self._stream.device_index, self._pool)
            torch._C._cuda_releasePool(self._stream.device_index, self._pool)
