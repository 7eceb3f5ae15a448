"""A response that sends pieces as they lie in memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.encodings.answer import Chunk

_JOINED_BYTES = 1 << 16
_SENT_BYTES = 1 << 20


class Pieces(Response):
    """Sends pieces without copying the large ones; calls ``done`` when it is over, however."""

    def __init__(
        self, pieces: list[Chunk], headers: Mapping[str, str], done: Callable[[], None]
    ) -> None:
        size = sum(map(len, pieces))
        super().__init__(headers={**headers, "content-length": str(size)})
        self._pieces = deque(pieces)
        self._done = done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        try:
            await send(start)
            for piece in _sized(self._pieces):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                await asyncio.sleep(0)  # a fast client must not keep the event loop to itself
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._pieces.clear()
            self._done()


def _sized(pieces: deque[Chunk]) -> Iterator[Chunk]:
    """Take the pieces out, join what is small and cut what is large: every write pays its call."""
    small: list[Chunk] = []
    size = 0
    while pieces:
        piece = pieces.popleft()
        if len(piece) <= _JOINED_BYTES:
            small.append(piece)
            size += len(piece)
            if size <= _JOINED_BYTES and pieces:
                continue
        if small:
            yield b"".join(small)
            small.clear()
            size = 0
        if len(piece) > _JOINED_BYTES:
            view = memoryview(piece)
            for start in range(0, len(view), _SENT_BYTES):
                yield view[start : start + _SENT_BYTES]
    if small:
        yield b"".join(small)
