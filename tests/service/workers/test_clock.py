"""The event loop's clock makes its calls later, outside of the caller's context."""

import asyncio
import contextvars

from elmo_serve.workers.clock import EVENT_LOOP_CLOCK

REQUEST = contextvars.ContextVar("REQUEST", default="none")


async def test_a_call_is_made_later_in_a_context_of_its_own() -> None:
    called: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    REQUEST.set("one")
    before = EVENT_LOOP_CLOCK.now()
    EVENT_LOOP_CLOCK.call_later(0.01, lambda: called.set_result(REQUEST.get()))
    assert not called.done()

    assert await called == "none"
    assert EVENT_LOOP_CLOCK.now() > before


async def test_a_cancelled_call_is_not_made() -> None:
    called: list[str] = []
    timer = EVENT_LOOP_CLOCK.call_later(0.0, lambda: called.append("cancelled"))
    done = asyncio.Event()
    EVENT_LOOP_CLOCK.call_later(0.001, done.set)
    timer.cancel()
    await done.wait()

    assert called == []
