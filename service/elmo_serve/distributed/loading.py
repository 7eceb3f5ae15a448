"""The loads of models in a replica: one attempt at a time for each model, for all that wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from elmo_serve.distributed.messages import LoadFault

RETRY_SECONDS: Final = 10
"""How long a model that could not be loaded is not tried again. A larger value answers 503 for
longer after the cause has gone; with a smaller one a broken model takes more time from the others.
"""

T = TypeVar("T")


class LoadError(Exception):
    """A model cannot be loaded. Ray Serve keeps what is returned, and not what is raised."""

    def __init__(self, fault: LoadFault) -> None:
        super().__init__(fault.reason)
        self.fault = fault


class Loads(Generic[T]):
    """Calls of `load` by the name of a model. `load` raises LoadError.

    Callers that ask for one model at the same time wait for one attempt. It goes on when a caller
    gives up: the next one gets its outcome.
    """

    def __init__(
        self, load: Callable[[str], Awaitable[T]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._load = load
        self._clock = clock
        self._attempts: dict[str, asyncio.Task[T | LoadFault]] = {}
        self._faults: dict[str, tuple[LoadFault, float]] = {}  # and when to try again

    async def get(self, model: str) -> T | LoadFault:
        """Return what `load` returns, or the fault of the last attempt."""
        fault, again = self._faults.get(model, (None, 0.0))
        if fault is not None and self._clock() < again:
            return fault
        attempt = self._attempts.get(model)
        if attempt is None:
            attempt = asyncio.create_task(self._attempt(model))
            self._attempts[model] = attempt
            attempt.add_done_callback(lambda _: self._attempts.pop(model))
        return await asyncio.shield(attempt)

    async def _attempt(self, model: str) -> T | LoadFault:
        try:
            loaded = await self._load(model)
        except LoadError as error:
            self._faults[model] = error.fault, self._clock() + RETRY_SECONDS
            return error.fault
        self._faults.pop(model, None)
        return loaded
