"""An answer sent in pieces as they lie in memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence

from starlette.types import Send

from elmo_serve.http.media_types.encoder import Chunk

_JOINED_BYTES = 1 << 16
_SENT_BYTES = 1 << 20


async def send_pieces(
    send: Send, headers: Sequence[tuple[bytes, bytes]], pieces: list[Chunk]
) -> None:
    """Answer 200 with these headers and pieces, without copying the large ones.

    ``pieces`` is emptied on the way, so that the memory of what was sent is free again.
    """
    size = sum(map(len, pieces))
    length = (b"content-length", str(size).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [*headers, length]})
    if size <= _JOINED_BYTES:
        await send({"type": "http.response.body", "body": b"".join(pieces)})
        return
    left = deque(pieces)
    pieces.clear()
    for piece in _sized(left):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        await asyncio.sleep(0)  # a fast client must not keep the event loop to itself
    await send({"type": "http.response.body", "body": b"", "more_body": False})


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
