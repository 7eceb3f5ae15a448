"""A response that sends pieces as they lie in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

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
        size = sum(len(piece) for piece in pieces)
        super().__init__(headers={**headers, "content-length": str(size)})
        self._pieces = pieces
        self._done = done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        try:
            await send(start)
            for piece in _sized(self._pieces):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._pieces.clear()
            self._done()


def _sized(pieces: Iterable[Chunk]) -> Iterator[Chunk]:
    """Join what is small and cut what is large, so that every write is worth its call."""
    small: list[Chunk] = []
    for piece in pieces:
        if len(piece) <= _JOINED_BYTES:
            small.append(piece)
            if sum(map(len, small)) > _JOINED_BYTES:
                yield b"".join(small)
                small.clear()
            continue
        if small:
            yield b"".join(small)
            small.clear()
        view = memoryview(piece)
        for start in range(0, len(view), _SENT_BYTES):
            yield view[start : start + _SENT_BYTES]
    if small:
        yield b"".join(small)
