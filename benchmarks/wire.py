"""A minimal HTTP client, because it shares its cores with the server that it measures."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_MOST_BUFFERED = 1 << 20


@dataclass(frozen=True, slots=True)
class Answered:
    """A status, a body, and the lines before the body."""

    status: int
    body: bytes
    head: bytes


class Wire:
    """Connections to one server, opened on demand and kept alive."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._host, self._port = parts.hostname, parts.port or 80
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, request: bytes) -> Answered:
        """Send the bytes of a request, see `post`, and return the whole response.

        Raises OSError or EOFError when the connection breaks.
        """
        if self._idle:
            reader, writer = self._idle.pop()
        else:
            reader, writer = await asyncio.open_connection(
                self._host, self._port, limit=_MOST_BUFFERED
            )
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1])) if length else b""
        except BaseException:
            writer.close()
            raise
        if b"\r\nconnection: close" in head.lower():
            writer.close()
        else:
            self._idle.append((reader, writer))
        return Answered(int(head[9:12]), body, head)

    async def close(self) -> None:
        """Close all connections."""
        for _, writer in self._idle:
            writer.close()
        await asyncio.gather(
            *(writer.wait_closed() for _, writer in self._idle), return_exceptions=True
        )
        self._idle.clear()


def post(body: dict[str, Any], accept: str, timeout_seconds: float) -> bytes:
    """Return the bytes of a POST /embed."""
    content = orjson.dumps(body)
    head = (
        f"POST /embed HTTP/1.1\r\nhost: elmo\r\naccept: {accept}\r\n"
        f"content-type: application/json\r\nx-request-timeout: {timeout_seconds:g}\r\n"
        f"content-length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content
