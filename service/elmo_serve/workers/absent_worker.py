"""A worker of a model that is known to be unfit before it is loaded."""

import asyncio
from collections.abc import Callable

from elmo_serve.workers.messages import Batch, LoadFailed, Message


class AbsentWorker:
    """Reports at its start that the model cannot be loaded, and ends."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def start(self, on_message: Callable[[Message], None], on_exit: Callable[[str], None]) -> None:
        """Report the reason on the next turn of the event loop."""
        loop = asyncio.get_running_loop()
        loop.call_soon(on_message, LoadFailed(self._reason))
        loop.call_soon(on_exit, "ended")

    def submit(self, batch: Batch) -> None:
        """Do nothing: no batch is given to a worker that is not ready."""

    def kill(self) -> None:
        """Do nothing: it has ended."""

    async def stop(self) -> None:
        """Do nothing: it has ended."""
