"""The event loop whose clock jumps to the next timer."""

from __future__ import annotations

import asyncio
import time

import pytest

from elmo_serve.capacity.virtual_time import LoopClock, VirtualLoop


def test_a_day_passes_at_once_and_in_order() -> None:
    seen: list[tuple[str, float]] = []

    async def wait(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((name, LoopClock().now()))

    async def both() -> None:
        LoopClock().call_later(3.0, lambda: seen.append(("called", LoopClock().now())))
        await asyncio.gather(wait("day", 86_400.0), wait("hour", 3_600.0))

    start = time.monotonic()
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(both())

    assert seen == [("called", 3.0), ("hour", 3_600.0), ("day", 86_400.0)]
    assert time.monotonic() - start < 3_600


def test_a_wait_for_something_that_never_happens_raises() -> None:
    with (
        pytest.raises(RuntimeError, match="never happens"),
        asyncio.Runner(loop_factory=VirtualLoop) as runner,
    ):
        runner.run(asyncio.Event().wait())
