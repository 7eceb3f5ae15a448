"""A fit on the server: its state, its end and its head."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import orjson
import safetensors.numpy
from numpy.typing import NDArray

from elmo_client.errors import BadAnswer, CannotSend, FitFailed
from elmo_client.responses import task_of
from elmo_client.session import Session
from elmo_client.task import Task

_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 2.0

Kind = Literal["token", "sentence", "pair"]


@dataclass(frozen=True, slots=True)
class JobState:
    """A job as the server answered it.

    `state` is "queued", "running", "done", "failed" or "cancelled"; `progress` goes from 0 to 1.
    `scores["mixtures"]` has an entry for each mixture that is fitted so far. `task` is there when
    the job is done, `reason` when it failed.
    """

    id: str
    name: str
    state: str
    progress: float
    scores: Mapping[str, Any]
    task: Task | None
    reason: str | None

    @property
    def has_ended(self) -> bool:
        """Whether nothing about the job will change."""
        return self.state not in ("queued", "running")


@dataclass(frozen=True, slots=True)
class Head:
    """The linear head of a task: `weight` (labels, 2P) and `bias` (labels); 8P for a pair."""

    labels: tuple[str, ...]
    weight: NDArray[np.float32]
    bias: NDArray[np.float32]


class AsyncJob:
    """A fit, for coroutines. `AsyncClient.fit` returns it."""

    def __init__(self, session: Session, job_id: str) -> None:
        self.id = job_id
        self._session = session

    async def state(self) -> JobState:
        """Ask the server for the state of the job."""
        return state_of(await self._session.job(self.id))

    async def wait(self) -> JobState:
        """Wait until the job is done, and return its last state.

        Raises FitFailed if it fails or is cancelled. There is no limit: a fit at low priority may
        take hours on a busy server.
        """
        pause = _FIRST_PAUSE_SECONDS
        while not (found := await self.state()).has_ended:
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE_SECONDS)
        if found.task is None:
            raise FitFailed(f"job {self.id} of task {found.name!r}: {found.reason or found.state}")
        return found

    async def cancel(self) -> JobState:
        """Cancel the job, and return it as it is then; a job that has ended is left alone."""
        return state_of(await self._session.cancel_job(self.id))

    async def head(self) -> Head:
        """Return the linear head of a job that is done."""
        return head_of(await self._session.head(self.id))


class Job:
    """A fit, for threads. `Client.fit` returns it."""

    def __init__(self, job: AsyncJob, call: Callable[..., Any]) -> None:
        self._job = job
        self._call = call

    @property
    def id(self) -> str:
        """The id of the job on the server."""
        return self._job.id

    def state(self) -> JobState:
        """Ask the server for the state of the job."""
        found: JobState = self._call(self._job.state)
        return found

    def wait(self) -> JobState:
        """Wait until the job is done, and return its last state. See `AsyncJob.wait`."""
        found: JobState = self._call(self._job.wait)
        return found

    def cancel(self) -> JobState:
        """Cancel the job, and return it as it is then; a job that has ended is left alone."""
        found: JobState = self._call(self._job.cancel)
        return found

    def head(self) -> Head:
        """Return the linear head of a job that is done."""
        found: Head = self._call(self._job.head)
        return found


def fit_body(options: Mapping[str, Any], examples: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the NDJSON of a fit: the options that are given, then an example a line.

    Raises CannotSend for what is no JSON.
    """
    given = {name: value for name, value in options.items() if value is not None}
    lines = [_line(given, "the options")]
    for number, example in enumerate(examples):
        if not isinstance(example, Mapping):
            raise CannotSend(f"example {number} is {example!r:.60}; expected a mapping")
        lines.append(_line(example, f"example {number}"))
    return b"\n".join(lines)


def _line(members: Mapping[str, Any], place: str) -> bytes:
    try:
        return orjson.dumps(dict(members), option=orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError as error:
        raise CannotSend(f"{place} cannot be written as JSON: {error}") from error


def state_of(found: Mapping[str, Any]) -> JobState:
    """Return a job of the server's JSON. Raises BadAnswer if a member is missing."""
    try:
        return JobState(
            found["id"],
            found["name"],
            found["state"],
            found["progress"],
            found["scores"],
            None if found["task"] is None else task_of(found["task"]),
            found["reason"],
        )
    except (KeyError, TypeError) as error:
        raise BadAnswer(f"the server sent a job without {error}") from error


def head_of(body: bytes) -> Head:
    """Return a head of its safetensors. Raises BadAnswer for another body."""
    try:
        header = orjson.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])
        tensors = safetensors.numpy.load(body)
        labels = orjson.loads(header["__metadata__"]["labels"])
        return Head(tuple(labels), tensors["weight"], tensors["bias"])
    except Exception as error:  # the errors of the library for damaged bytes share no base class
        raise BadAnswer(f"the response is no head: {error}") from error
