"""CUDA graphs: the hundreds of kernels of a chunk become one launch."""

from collections.abc import Callable
from contextlib import suppress
from threading import Lock

import torch

# torch allows one capture at a time in a process, so this lock is global.
_CAPTURE = Lock()
# Runs before a capture: torch asks for some, and kernels are compiled and workspaces allocated in
# the first. More of them only take time.
_WARM_UPS = 2


class CudaCapturer:
    """Captures on one device: all graphs on the same two streams and from one memory pool.

    A graph reads and writes buffers of its caller, and memory that it allocates itself is not used
    after it: so graphs can share the pool and be replayed in any order, one at a time. All graphs
    are kept until the capturer is freed: with the first graph that is freed, torch frees the
    workspaces of its stream's products, which the other graphs use too.
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
        """Compute the first on the current stream and the second on another one in parallel."""
        current = torch.cuda.current_stream(self._device)
        self._side.wait_stream(current)
        first()
        with torch.cuda.stream(self._side):
            second()
        current.wait_stream(self._side)

    def capture(self, compute: Callable[[], None]) -> Callable[[], None]:
        """Capture `compute`, after some runs of it, and return its replay.

        The runs allocate workspaces and choose and compile kernels, and they fail outside of the
        capture when memory is short. A replay runs on the stream that is current at that time.
        """
        with _CAPTURE, torch.cuda.device(self._device):
            current = torch.cuda.current_stream()
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                for _ in range(_WARM_UPS):
                    compute()
            current.wait_stream(self._stream)
            try:
                # a capture that fails leaves its own stream current; this restores it
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
        """Tell the allocator that a capture has ended, which torch does for successful ones only.

        Until then the allocator frees no memory and `empty_cache` raises.
        """
        with suppress(AttributeError, RuntimeError):  # a private interface; or it had ended
            torch._C._cuda_endAllocateToPool(self._stream.device_index, self._pool)
            torch._C._cuda_releasePool(self._stream.device_index, self._pool)
