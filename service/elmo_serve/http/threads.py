"""Threads that compute parts of responses, and never hold up the end of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_MOST_THREADS: Final = 8
"""Threads of one kind of work. More hold more memory of responses at once."""


class DaemonThreads(Executor):
    """Runs calls in a few daemon threads called `name`, which start when they are needed.

    The end of an event loop, and of Python, waits for the threads of a `ThreadPoolExecutor`. One
    may read a file system that hangs.
    """

    def __init__(self, name: str, most: int = _MOST_THREADS) -> None:
        self._name = name
        self._most = most
        self._started = 0
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue a call; one that is cancelled before it begins is not made."""
        future: Future[T] = Future()
        self._calls.put((future, partial(fn, *args, **kwargs)))
        if self._started < self._most:
            self._started += 1
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        return future

    def _run(self) -> None:
        while True:
            _compute(*self._calls.get())


def _compute(future: Future[Any], call: Callable[[], Any]) -> None:
    """Make a call; no reference to its arguments, or its result, stays in the thread."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # it belongs to the caller, whatever it is
        future.set_exception(error)
    else:
        future.set_result(result)
