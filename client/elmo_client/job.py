"""A fit on the server: waited for, cancelled, and its head."""

import asyncio
from collections.abc import Callable
from typing import Any

from elmo_client.errors import CannotSend, FitFailed, shown
from elmo_client.event_loop_thread import blocking
from elmo_client.results import Head, JobState
from elmo_client.transport.requests import path_of
from elmo_client.transport.responses import MEDIA_TYPE, head_of, json_of, state_of
from elmo_client.transport.session import Call, Session

_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 2.0


class AsyncJob:
    """A fit, for coroutines. `AsyncClient.fit` returns it."""

    def __init__(self, session: Session, job_id: str) -> None:
        self.id = job_id
        self._session = session
        self._path = path_of("/jobs", job_id, "the id of the job", "the one that fit returned")

    async def state(self) -> JobState:
        """Ask the server for the state of the job."""
        return state_of(json_of(await self._session.send(Call("GET", self._path))))

    async def wait(self, on_progress: Callable[[float], None] = lambda _: None) -> JobState:
        """Wait until the job is done, and return its last state.

        `on_progress` is called with a number from 0 to 1 each time that the server is asked. Raises
        FitFailed if it fails or is cancelled. There is no limit: a fit at low priority may take
        hours on a busy server.
        """
        if not callable(on_progress):
            expected = "a function of a number from 0 to 1; wait has no time limit"
            raise CannotSend(f"on_progress is {shown(on_progress)}; expected {expected}")
        pause = _FIRST_PAUSE_SECONDS
        while not (found := await self.state()).has_ended:
            on_progress(found.progress)
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE_SECONDS)
        if found.task is None:
            raise FitFailed(f"job {self.id} of task {found.name!r}: {found.reason or found.state}")
        on_progress(1.0)
        return found

    async def cancel(self) -> JobState:
        """Cancel the job, and return it as it is then; a job that has ended is left alone."""
        return state_of(json_of(await self._session.send(Call("DELETE", self._path))))

    async def head(self) -> Head:
        """Return the linear head of a job that is done."""
        call = Call("GET", f"{self._path}/head", accept=MEDIA_TYPE)
        return head_of((await self._session.send(call)).content)


class Job:
    """A fit, for threads. `Client.fit` returns it."""

    def __init__(self, job: AsyncJob, call: Callable[..., Any]) -> None:
        self._async = job
        self._call = call

    @property
    def id(self) -> str:
        """The id of the job on the server."""
        return self._async.id

    state = blocking(AsyncJob.state)

    wait = blocking(AsyncJob.wait)

    cancel = blocking(AsyncJob.cancel)

    head = blocking(AsyncJob.head)
