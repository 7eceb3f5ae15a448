"""Streams and graph captures of a CUDA device that is not there; every operation runs at once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch


class PretendStream:
    """A stream by its number, which writes down for which streams it waits."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.waited_for: list[int] = []

    def wait_stream(self, other: "PretendStream") -> None:
        self.waited_for.append(other.number)


class PretendCuda:
    """Takes the place of streams and graphs in `torch.cuda`; `torch.cuda.graph` is torch's own.

    `current` is the stream of the thread, `streams` are all others, `pools` has the memory pool
    that each capture was given. `fail` is called at the end of a capture.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.current = PretendStream()
        self.streams: list[PretendStream] = []
        self.pools: list[Any] = []
        self.fail: Callable[[], None] = lambda: None
        for name, value in {
            "device": nullcontext,
            "Stream": lambda _: self._stream(),
            "current_stream": lambda *_: self.current,
            "stream": self._within,
            "CUDAGraph": lambda: _PretendGraph(self),
            "graph_pool_handle": object,
            "synchronize": lambda: None,
            "empty_cache": lambda: None,
        }.items():
            patch.setattr(torch.cuda, name, value)
        patch.setattr(torch._C, "_host_emptyCache", lambda: None, raising=False)

    def _stream(self) -> PretendStream:
        self.streams.append(PretendStream(len(self.streams) + 1))
        return self.streams[-1]

    @contextmanager
    def _within(self, stream: PretendStream) -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before


class _PretendGraph:
    def __init__(self, device: PretendCuda) -> None:
        self._device = device

    def capture_begin(self, pool: Any = None, **_: Any) -> None:
        self._device.pools.append(pool)

    def capture_end(self) -> None:
        self._device.fail()

    def replay(self) -> None:
        """Do nothing: a capture holds no operations."""
