"""The end of requests that a stopping server does not wait for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from elmo_serve.errors import Unavailable


class StopSignal:
    """Ends the waits of requests: each is answered 503 then and not cut off."""

    def __init__(self) -> None:
        self._waits: set[asyncio.Timeout] = set()

    def send(self) -> None:
        """End every wait that is under way."""
        now = asyncio.get_running_loop().time()
        for wait in self._waits:
            wait.reschedule(now)

    @asynccontextmanager
    async def ends_wait(self) -> AsyncIterator[None]:
        """Raise Unavailable out of the block when the signal is sent."""
        wait = asyncio.timeout(None)
        try:
            async with wait:
                self._waits.add(wait)
                try:
                    yield
                finally:
                    self._waits.discard(wait)
        except TimeoutError:
            if not wait.expired():
                raise
            raise Unavailable("The server stops before it could answer.", retry_after=1) from None
