"""Threads that compute: errors reach the caller, and none holds up a stop or frees too soon."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import replace

import pytest
from starlette.requests import Request

from elmo_serve.http.call import EmbeddingCall
from elmo_serve.http.threads import DaemonThreads
from tests.support.engines import until
from tests.support.http_messages import http_scope
from tests.support.in_process import InProcess, in_process

GUARD_SECONDS = 60.0
"""A stop that takes longer is held up."""


def fail() -> None:
    """Raise an exception of no library."""
    raise SystemExit("not the end of a thread")


def test_results_and_errors_reach_the_caller_and_few_threads_are_started() -> None:
    threads, gate = DaemonThreads("test", 2), threading.Event()
    before = threading.active_count()
    blocked = [threads.submit(gate.wait) for _ in range(2)]
    dropped, failed, found = (
        threads.submit(*call) for call in ((len, "abc"), (fail,), (len, "ab"))
    )
    assert dropped.cancel()
    assert threading.active_count() <= before + 2
    gate.set()

    assert [each.result() for each in blocked] == [True, True]
    assert found.result() == 2
    with pytest.raises(SystemExit):
        failed.result()


def test_as_many_calls_run_at_once_as_there_may_be_threads() -> None:
    threads, meeting = DaemonThreads("test", 2), threading.Barrier(2, timeout=GUARD_SECONDS)

    calls = [threads.submit(meeting.wait) for _ in range(2)]

    assert {each.result() for each in calls} == {0, 1}


def call_of(serving: InProcess) -> EmbeddingCall:
    scope = {**http_scope(content_type="application/json"), "app": serving.app}
    return EmbeddingCall(Request(scope))


async def test_bytes_are_given_back_at_once_if_no_thread_has_begun() -> None:
    async with in_process() as serving:
        gate, answers = threading.Event(), serving.server.engine.answers
        encoding = DaemonThreads("test", 1)
        serving.app.state.call_parts = replace(serving.server.call_parts(), encoding=encoding)
        blocked: Future[bool] = encoding.submit(gate.wait)

        async def respond(call: EmbeddingCall) -> None:
            async with call:
                call.reserve(1_000)
                await call.in_thread(len, "")

        work = asyncio.ensure_future(respond(call_of(serving)))
        await until(lambda: answers.used == 1_000)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        used = answers.used
        gate.set()
        blocked.result()

        assert used == 0


def ends(work: Coroutine[None, None, None]) -> bool:
    """Run an event loop with this work in a thread; tell whether it ends."""
    thread = threading.Thread(target=asyncio.run, args=(work,), daemon=True)
    thread.start()
    thread.join(GUARD_SECONDS)
    return not thread.is_alive()


def test_a_search_in_an_index_whose_file_system_hangs_holds_up_no_stop() -> None:
    begun, statuses = threading.Event(), list[int]()

    class Hung:
        """An index whose files are never read."""

        def nearest_uses(self, *_: object) -> None:
            begun.set()
            threading.Event().wait()

    async def search() -> None:
        async with in_process() as serving:
            serving.server.models.first.uses._index = Hung()  # type: ignore[assignment]
            body = {"tokens": ["a", "b"], "token": 1}
            answer = await serving.client.post(
                "/neighbours", json=body, headers={"X-Request-Timeout": "1"}
            )
            await until(begun.is_set)
            statuses.append(answer.status_code)

    assert ends(search())
    assert statuses == [504]
