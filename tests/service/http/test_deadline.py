"""A request is ended by its time, a disconnect or a stop; nothing else ends it."""

import asyncio
import threading

import pytest
from prometheus_client import Counter
from starlette.requests import Request
from starlette.types import Message

from elmo_serve.errors import DeadlineExceeded, Unavailable
from elmo_serve.http.call import EmbeddingCall
from elmo_serve.http.deadline import Deadline, Deadlines, DisconnectError
from tests.support.engines import until
from tests.support.http_messages import http_scope
from tests.support.in_process import in_process


def some() -> Deadlines:
    return Deadlines(Counter("overdue", "Overdue.", registry=None))


async def wait_for_ever(deadlines: Deadlines, began: asyncio.Event) -> None:
    async with Deadline(deadlines, 60):
        began.set()
        await asyncio.Event().wait()


def is_cancelled() -> bool:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling() > 0


async def test_requests_under_way_are_answered_503_when_the_server_stops() -> None:
    deadlines, began = some(), asyncio.Event()
    waiting = asyncio.create_task(wait_for_ever(deadlines, began))
    await began.wait()

    deadlines.end()
    deadlines.end()

    with pytest.raises(Unavailable):
        await waiting
    assert not waiting.cancelled()
    assert not deadlines.running


async def test_work_after_the_block_is_not_ended() -> None:
    deadlines, began = some(), asyncio.Event()

    async def work() -> str:
        async with Deadline(deadlines, 60):
            began.set()
        await asyncio.sleep(0)
        return "done"

    task = asyncio.create_task(work())
    await began.wait()
    deadlines.end()

    assert await task == "done"


async def test_errors_of_the_block_and_other_cancellations_pass() -> None:
    deadlines, began = some(), asyncio.Event()
    for error in (KeyError, TimeoutError):
        with pytest.raises(error):
            async with Deadline(deadlines, 60):
                raise error
    waiting = asyncio.create_task(wait_for_ever(deadlines, began))
    await began.wait()

    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_request_over_its_time_says_what_was_missing() -> None:
    deadlines = some()
    with pytest.raises(DeadlineExceeded, match=r"Nothing in 0\.001 s"):
        async with Deadline(deadlines, 0.001) as deadline:
            deadline.overdue = "Nothing in {:g} s."
            await asyncio.Event().wait()

    assert deadlines.overdue._value.get() == 1
    assert not is_cancelled()


async def test_a_disconnect_ends_the_request() -> None:
    has_left = asyncio.Event()

    async def receive() -> Message:
        await has_left.wait()
        return {"type": "http.disconnect"}

    async def work() -> None:
        async with Deadline(some(), 60) as deadline:
            deadline.end_on_disconnect(receive)
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    has_left.set()

    with pytest.raises(DisconnectError):
        await task
    assert task.cancelling() == 0


async def test_an_error_while_the_request_is_ended_leaves_the_task_uncancelled() -> None:
    with pytest.raises(KeyError):
        async with Deadline(some(), 0):
            try:
                await asyncio.Event().wait()
            finally:
                raise KeyError

    assert not is_cancelled()


async def test_the_watch_ends_with_its_request() -> None:
    """It would hold `receive`, and with it the request, for ever."""
    is_watching, has_ended = asyncio.Event(), asyncio.Event()

    async def receive() -> Message:
        try:
            is_watching.set()
            await asyncio.Event().wait()
        finally:
            has_ended.set()
        raise AssertionError

    async with Deadline(some(), 60) as deadline:
        deadline.end_on_disconnect(receive)
        await is_watching.wait()

    await has_ended.wait()


async def test_work_of_a_request_in_a_thread_ends_with_its_time() -> None:
    """It holds its arrays until then, so their bytes count, and what waits for it never begins."""
    async with in_process() as serving:
        scope = http_scope("/embed", X_Request_Timeout="0.5")
        end, answers = threading.Event(), serving.server.engine.answers
        try:
            with pytest.raises(DeadlineExceeded, match=r"within 0\.5 s, but the response was not"):
                async with EmbeddingCall(Request({**scope, "app": serving.app})) as call:
                    call.reserve(100)
                    await call.in_thread(end.wait)
            assert answers.used == 100
        finally:
            end.set()
        await until(lambda: answers.used == 0)
