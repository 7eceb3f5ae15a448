"""Runs asynchronous tests in virtual time: timed tests take no time and are exact."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

from elmo_serve.capacity.virtual_time import LoopClock, VirtualLoop

__all__ = ["LoopClock", "VirtualLoop", "in_virtual_time"]

P = ParamSpec("P")


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an asynchronous test in a `VirtualLoop` of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
