"""A stop signal ends the waits that are under way, and nothing else."""

import asyncio

import pytest

from elmo_serve.errors import Unavailable
from elmo_serve.http.stop_signal import StopSignal


async def wait_for_ever(signal: StopSignal, began: asyncio.Event) -> None:
    with signal.ends_wait():
        began.set()
        await asyncio.Event().wait()


async def test_a_wait_under_way_is_answered_503() -> None:
    signal, began = StopSignal(), asyncio.Event()
    waiting = asyncio.create_task(wait_for_ever(signal, began))
    await began.wait()

    signal.send()

    with pytest.raises(Unavailable, match="The server stops before it could answer"):
        await waiting
    assert not waiting.cancelled()


async def test_work_after_the_block_is_not_ended() -> None:
    signal, began = StopSignal(), asyncio.Event()

    async def work() -> str:
        with signal.ends_wait():
            began.set()
        await asyncio.sleep(0)
        return "done"

    task = asyncio.create_task(work())
    await began.wait()
    signal.send()

    assert await task == "done"


async def test_a_signal_just_before_the_task_resumes_ends_its_wait() -> None:
    signal, began, go_on = StopSignal(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        with signal.ends_wait():
            began.set()
            await go_on.wait()

    task = asyncio.create_task(work())
    await began.wait()
    go_on.set()
    signal.send()

    with pytest.raises(Unavailable):
        await task
    assert task.cancelling() == 0


async def test_errors_of_the_block_and_other_cancellations_pass() -> None:
    signal, began = StopSignal(), asyncio.Event()
    with pytest.raises(KeyError), signal.ends_wait():
        raise KeyError
    waiting = asyncio.create_task(wait_for_ever(signal, began))
    await began.wait()

    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
