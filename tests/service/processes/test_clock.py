"""The real clock makes its calls on the event loop, in a context of their own."""

import asyncio
import contextvars

from elmo_serve.processes.clock import EVENT_LOOP_CLOCK

REQUEST = contextvars.ContextVar("REQUEST", default="none")


async def test_a_call_is_made_later_in_a_context_of_its_own() -> None:
    called: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    REQUEST.set("one")
    before = EVENT_LOOP_CLOCK.now()
    EVENT_LOOP_CLOCK.call_later(0.01, lambda: called.set_result(REQUEST.get()))
    assert not called.done()

    assert await called == "none"
    assert EVENT_LOOP_CLOCK.now() > before
