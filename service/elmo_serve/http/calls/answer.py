"""The response of a call: its description, and chunks that are sent without copying large ones."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from numpy.typing import NDArray
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from elmo_serve.http.calls.parse import Parsed
from elmo_serve.http.calls.tokenize import listed_warnings
from elmo_serve.http.helpers.text import TokenizedTexts
from elmo_serve.http.media_types.encoder import Chunk, Embeddings
from elmo_serve.http.served_models import ServedModel
from elmo_serve.output import Output
from elmo_serve.scheduling.budgets import Hold

JSON_HEADERS: Final = ((b"content-type", b"application/json"),)

_ONE_VECTOR: Final = Output()

_PIECE_BYTES = 1 << 20
"""Bytes that are sent at once: small chunks are joined, because a call of `send` costs more than
the copy, and large ones are cut, so that other requests run between two writes."""


def described(
    model: ServedModel,
    body: Parsed[Any],
    texts: TokenizedTexts,
    output: Output = _ONE_VECTOR,
    *,
    arrays: Sequence[NDArray[Any]] = (),
    unknown: int = 0,
) -> Embeddings:
    """Return everything that a response says of its sentences, and of their `output`.

    `unknown` is the number of tokens without a word vector, where word vectors are appended.
    """
    info, tokens = model.info, sum(texts.lengths)
    is_text = body.member == "text"
    return Embeddings(
        model=model.name,
        revision=info.revision,
        dimension=output.width(info.dimension),
        layers=output.layers,
        tokens=tokens,
        arrays=arrays,
        sentences=texts.sentences,
        shape=output.shape(-1, info.dimension),
        dtype=output.dtype,
        offsets=texts.offsets,
        tokenizer=body.request.tokenizer or info.tokenizer if is_text else None,
        warnings=listed_warnings(body, texts.warnings),
        unknown_share=round(unknown / (tokens or 1), 6) if output.appended else None,
    )


class ChunkedResponse(Response):
    """A response in chunks; its bytes are given back when the last one is sent.

    `warnings` is the number of odd tokens, for a header.
    """

    def __init__(
        self,
        chunks: list[Chunk],
        warnings: int,
        headers: Sequence[tuple[bytes, bytes]],
        hold: Hold,
    ) -> None:
        # Not Response's own constructor, which would join and copy a body.
        self.background = None
        self.raw_headers = list(headers or JSON_HEADERS)
        if warnings:
            self.raw_headers.append((b"x-warnings", str(warnings).encode()))
        self._chunks = chunks
        self._hold = hold

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send_chunks(send, self.raw_headers, self._chunks)
        finally:
            self._hold.release()


async def send_chunks(
    send: Send, headers: Sequence[tuple[bytes, bytes]], chunks: list[Chunk]
) -> None:
    """Send a response with status 200, these headers, a Content-Length and these chunks.

    `chunks` is emptied on the way, so that the memory of each chunk is free once it is sent.
    """
    size = sum(map(len, chunks))
    length = (b"content-length", str(size).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [*headers, length]})
    remaining = deque(chunks)
    chunks.clear()
    piece = bytearray()
    while remaining:
        chunk = memoryview(remaining.popleft())
        while len(piece) + len(chunk) > _PIECE_BYTES:
            room = _PIECE_BYTES - len(piece)
            body = b"".join((piece, chunk[:room]))
            piece, chunk = bytearray(), chunk[room:]
            await send({"type": "http.response.body", "body": body, "more_body": True})
            await asyncio.sleep(0)  # a fast client must not keep the event loop to itself
        piece += chunk
    await send({"type": "http.response.body", "body": bytes(piece)})
