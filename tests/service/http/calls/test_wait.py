"""A wait is ended by a stop, its limit or a disconnect; nothing else is."""

import asyncio

import pytest

from elmo_serve.errors import Unavailable
from elmo_serve.http.calls.body import DisconnectError, RequestWaits


async def wait_for_ever(waits: RequestWaits, began: asyncio.Event) -> None:
    with waits.begin():
        began.set()
        await asyncio.Event().wait()


async def test_a_wait_under_way_is_answered_503() -> None:
    waits, began = RequestWaits(), asyncio.Event()
    waiting = asyncio.create_task(wait_for_ever(waits, began))
    await began.wait()

    waits.end()

    with pytest.raises(Unavailable, match="The server stops before it could answer"):
        await waiting
    assert not waiting.cancelled()


async def test_work_after_the_block_is_not_ended() -> None:
    waits, began = RequestWaits(), asyncio.Event()

    async def work() -> str:
        with waits.begin():
            began.set()
        await asyncio.sleep(0)
        return "done"

    task = asyncio.create_task(work())
    await began.wait()
    waits.end()

    assert await task == "done"


async def test_a_stop_just_before_the_task_resumes_ends_its_wait() -> None:
    waits, began, go_on = RequestWaits(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        with waits.begin():
            began.set()
            await go_on.wait()

    task = asyncio.create_task(work())
    await began.wait()
    go_on.set()
    waits.end()

    with pytest.raises(Unavailable):
        await task
    assert task.cancelling() == 0


async def test_errors_of_the_block_and_other_cancellations_pass() -> None:
    waits, began = RequestWaits(), asyncio.Event()
    with pytest.raises(KeyError), waits.begin():
        raise KeyError
    waiting = asyncio.create_task(wait_for_ever(waits, began))
    await began.wait()

    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_wait_over_its_limit_raises_the_error_of_the_last_limit() -> None:
    with pytest.raises(KeyError, match="second"), RequestWaits().begin() as wait:
        wait.limit(0, lambda: KeyError("first"))
        wait.limit(0, lambda: KeyError("second"))
        await asyncio.Event().wait()


async def test_a_limit_that_was_removed_does_not_end_the_wait() -> None:
    with RequestWaits().begin() as wait:
        wait.limit(0, KeyError)
        wait.clear_limit()
        later = asyncio.Event()
        asyncio.get_running_loop().call_later(0, later.set)
        await later.wait()


async def test_a_disconnect_ends_the_wait() -> None:
    has_left = asyncio.Event()

    async def receive() -> dict[str, object]:
        await has_left.wait()
        return {"type": "http.disconnect"}

    async def work() -> None:
        with RequestWaits().begin() as wait:
            wait.end_on_disconnect(receive)
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    has_left.set()

    with pytest.raises(DisconnectError):
        await task
    assert task.cancelling() == 0


async def test_an_error_while_the_wait_is_ended_leaves_the_task_uncancelled() -> None:
    with pytest.raises(KeyError), RequestWaits().begin() as wait:
        wait.limit(0, Exception)
        try:
            await asyncio.Event().wait()
        finally:
            raise KeyError
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_the_watcher_ends_with_its_wait() -> None:
    """It would hold `receive`, and with it the request, for ever."""
    is_watching, is_cancelled = asyncio.Event(), asyncio.Event()

    async def receive() -> dict[str, object]:
        try:
            is_watching.set()
            await asyncio.Event().wait()
        finally:
            is_cancelled.set()
        raise AssertionError

    with RequestWaits().begin() as wait:
        wait.end_on_disconnect(receive)
        await is_watching.wait()

    await is_cancelled.wait()
