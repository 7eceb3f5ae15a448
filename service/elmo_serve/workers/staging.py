"""Vectors on their way from a device to the host, while the next batch is launched."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")


class Staging:
    """Two buffers on the host, used in turn, into which a device copies asynchronously.

    The device copies on a stream of its own, and a thread handles the vectors on the host. A buffer
    grows to the largest batch; CUDA writes to memory that is never swapped out. Shared memory is no
    such buffer: to register its sparse file would allocate all of it.
    """

    def __init__(self, device: torch.device, thread: Executor | None = None) -> None:
        self._device = device
        self._stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._thread = thread or ThreadPoolExecutor(1, "elmo-staging")
        empty: tuple[Tensor, Future[Any] | None] = torch.empty(0, dtype=torch.uint8), None
        self._buffers = deque([empty, empty])  # each with the last call that reads it

    def fetch(
        self,
        vectors: Sequence[Tensor],
        dtypes: Sequence[str],
        handle: Callable[[list[Tensor], bool], Result],
    ) -> Future[Result]:
        """Copy vectors to the host in these dtypes, and return the future result of `handle`.

        `handle` is called in a thread, with the vectors on the host and whether all of them are
        certainly finite. It must not keep them. Vectors of bytes are on the host already.
        """
        host = list(vectors)
        groups = []  # larger numbers first, so that each is aligned
        for dtype in (torch.float32, torch.float16):
            members = [i for i, own in enumerate(dtypes) if getattr(torch, own) == dtype]
            if members:
                groups.append((dtype, members))
        flat = [torch.cat([vectors[i].flatten() for i in own]).to(dtype) for dtype, own in groups]
        if flat:  # a sum is finite only if all of its numbers are
            flat.insert(0, torch.stack([each.sum(dtype=torch.float32) for each in flat]))
        copies, copied = self._copy(flat)
        for (_, members), copy in zip(groups, copies[1:], strict=True):
            parts = torch.split(copy, [vectors[i].numel() for i in members])
            for i, part in zip(members, parts, strict=True):
                host[i] = part.view(vectors[i].shape)

        def finish() -> Result:
            if copied is not None:
                copied.synchronize()
            flat.clear()  # memory of the device, which was read until now
            return handle(host, bool(copies) and bool(copies[0].isfinite().all()))

        future = self._thread.submit(finish)
        self._buffers[0] = self._buffers[0][0], future
        self._buffers.rotate()
        return future

    def _copy(self, tensors: Sequence[Tensor]) -> tuple[list[Tensor], torch.cuda.Event | None]:
        """Begin to copy tensors to the buffer whose turn it is; return their copies, and an event.

        Waits until the call that reads the buffer has ended.
        """
        buffer, last = self._buffers[0]
        if last is not None:
            last.exception()
        size = sum(each.nbytes for each in tensors)
        if buffer.numel() < size:
            buffer = torch.empty(size, dtype=torch.uint8, pin_memory=self._stream is not None)
            self._buffers[0] = buffer, None
        parts = torch.split(buffer[:size], [each.nbytes for each in tensors])
        copies = [part.view(each.dtype) for part, each in zip(parts, tensors, strict=True)]
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            for copy, each in zip(copies, tensors, strict=True):
                copy.copy_(each, non_blocking=True)
            if self._stream is None:
                return copies, None
            event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            return copies, self._stream.record_event(event)
