"""End the process when its event loop fails again and again."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import time
from collections import deque
from collections.abc import Callable
from typing import Any

_log = logging.getLogger("elmo_serve")

_FAILURES = 100
"""Failures within `_SECONDS` after which the process ends. A larger value writes a longer log."""

_SECONDS = 10.0

_SHORTAGES = {errno.ENOMEM, errno.ENOBUFS, errno.EMFILE, errno.ENFILE, errno.ENOSPC}


class LoopFailureHandler:
    """An exception handler for an event loop that has no memory or descriptor left for itself.

    A callback of the loop's own that fails is called again at once, for ever: uvloop's
    `_read_from_self` has filled a log with three million MemoryErrors, and no signal was handled
    any more. Failures of one connection or task do not count: they end with it.
    """

    def __init__(
        self,
        exit_process: Callable[[int], Any] = os._exit,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._exit_process = exit_process
        self._clock = clock
        self._times: deque[float] = deque(maxlen=_FAILURES)

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log the exception; end the process with status 1 after too many of them."""
        if is_shortage(context.get("exception")) and not {"transport", "future"} & context.keys():
            now = self._clock()
            self._times.append(now)
            if len(self._times) == _FAILURES and now - self._times[0] <= _SECONDS:
                self._give_up()
                return
        loop.default_exception_handler(context)

    def _give_up(self) -> None:
        try:
            _log.critical(
                "the event loop has failed %d times within %g seconds, out of memory or file "
                "descriptors: the server ends",
                _FAILURES,
                _SECONDS,
            )
            logging.shutdown()
        finally:
            # At once: the loop cannot close anything. Child processes read an end of file.
            self._exit_process(1)


def is_shortage(error: object) -> bool:
    """Tell whether an error says that memory or file descriptors are used up."""
    return isinstance(error, MemoryError) or (
        isinstance(error, OSError) and error.errno in _SHORTAGES
    )
