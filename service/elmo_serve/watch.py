"""A thread that looks at files again and again."""

import logging
import threading
from collections.abc import Callable
from typing import Final

LOOK_SECONDS: Final = 1.0
"""Seconds between two looks. A change is seen after as long at most, and the time of a look. A
smaller value costs a call of `stat` for each file more often."""

_log = logging.getLogger("elmo_serve")


class Watch:
    """Calls `look` at once and then every `seconds`, in a thread called `name`.

    A daemon thread: the file system may hang, and the process must end all the same. A look that
    raises ends no watch: the error is logged, once until a look has succeeded again.
    """

    def __init__(
        self, name: str, look: Callable[[], object], seconds: float = LOOK_SECONDS
    ) -> None:
        self._name = name
        self._look = look
        self._seconds = seconds
        self._is_closed = threading.Event()

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def close(self) -> None:
        """End the thread after the look that it is at."""
        self._is_closed.set()

    def _run(self) -> None:
        is_failing = False
        while not self._is_closed.is_set():
            try:
                self._look()
                is_failing = False
            except Exception:
                if not is_failing:
                    _log.exception("%s could not look at its files, and goes on", self._name)
                is_failing = True
            self._is_closed.wait(self._seconds)
