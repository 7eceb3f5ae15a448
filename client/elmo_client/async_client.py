"""The client for coroutines."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from typing import Any, Self, TypeVar, Unpack

import httpx

from elmo_client.request_batches import Options
from elmo_client.session import Session, Vectors
from elmo_client.steps import END, Call, Collect, Compute, Drive, Pause, Start, Step, Steps, Take
from elmo_model.task import Task

_Result = TypeVar("_Result")


class AsyncClient:
    """Talks to a server from coroutines of one event loop. To be closed."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout_seconds: float = 60.0,
        patience_seconds: float = 60.0,
        in_flight: int = 4,
    ) -> None:
        """Point at a server; nothing is sent yet. See `Client`."""
        self._session = Session(url, api_key, timeout_seconds, patience_seconds, in_flight)
        self._http = httpx.AsyncClient(**self._session.http_options)

    async def embed(
        self,
        sentences: Iterable[Sequence[str]] | AsyncIterable[Sequence[str]],
        **options: Unpack[Options],
    ) -> list[Vectors]:
        """Return one array a sentence: see `Client.embed`."""
        return [array async for array in self.stream(sentences, **options)]

    async def stream(
        self,
        sentences: Iterable[Sequence[str]] | AsyncIterable[Sequence[str]],
        **options: Unpack[Options],
    ) -> AsyncIterator[Vectors]:
        """Yield one array a sentence: see `Client.stream`."""
        rows = _awaited(sentences)
        running: deque[asyncio.Task[list[Vectors]]] = deque()
        drive = Drive(self._session.stream(options))
        try:
            while drive.step is not None:
                match drive.step:
                    case Take():
                        drive.answer(await anext(rows, END))
                    case Start(steps):
                        running.append(asyncio.create_task(self._run(steps)))
                        drive.answer(None)
                    case Collect(most):
                        while running and (len(running) > most or running[0].done()):
                            for array in await running.popleft():
                                yield array
                        drive.answer(None)
                    case _:
                        await self._perform(drive)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def info(self) -> dict[str, Any]:
        """Return what GET /info says; asked once."""
        return await self._run(self._session.info())

    async def tasks(self) -> tuple[Task, ...]:
        """Return the registered tasks in the order of their names."""
        return await self._run(self._session.tasks())

    async def put_task(
        self,
        name: str,
        weights: Sequence[float],
        *,
        gamma: float = 1.0,
        layer_norm: bool = False,
        description: str = "",
    ) -> Task:
        """Register a task, or replace the one of its name, and return it."""
        steps = self._session.put_task(name, weights, gamma, layer_norm, description)
        return await self._run(steps)

    async def delete_task(self, name: str) -> None:
        """Forget a task. Raises NotFound where there is none."""
        await self._run(self._session.delete_task(name))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, steps: Steps[_Result]) -> _Result:
        drive = Drive(steps)
        while drive.step is not None:
            await self._perform(drive)
        return drive.result

    async def _perform(self, drive: Drive[Any]) -> None:
        try:
            came = await self._do(drive.step)
        except Exception as error:  # the generator knows which it can do something about
            drive.fail(error)
        else:
            drive.answer(came)

    async def _do(self, step: Step) -> Any:
        match step:
            case Call(method, path, content):
                return await self._http.request(method, path, content=content, headers=step.headers)
            case Pause(seconds):
                return await asyncio.sleep(seconds)
            case Compute(function):
                return await asyncio.to_thread(function)


async def _awaited(
    sentences: Iterable[Sequence[str]] | AsyncIterable[Sequence[str]],
) -> AsyncIterator[Sequence[str]]:
    if isinstance(sentences, AsyncIterable):
        async for sentence in sentences:
            yield sentence
    else:
        for sentence in sentences:
            yield sentence
