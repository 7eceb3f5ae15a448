"""A transport that writes the head of an answer and its body in one call."""

from __future__ import annotations

import asyncio
from typing import Any

_HELD_BYTES = 1 << 16


class JoinedWrites:
    """What is written in one turn of the event loop leaves together.

    Only what the writer of an answer asks of a transport.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[Any] = []
        self._size = 0

    def write(self, data: Any) -> None:
        """Keep some bytes until the turn is over, or until they are many."""
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)
        self._size += len(data)
        if self._size > _HELD_BYTES:
            self._flush()

    def is_closing(self) -> bool:
        """Say whether it is closed, or will be once everything is written."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Write what is kept, and close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        held, self._held, self._size = self._held, [], 0
        if held and not self._transport.is_closing():  # the client may have gone meanwhile
            self._transport.writelines(held)
