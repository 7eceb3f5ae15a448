"""The client for threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self, TypeVar, Unpack

import httpx

from elmo_client.errors import Unreachable
from elmo_client.request_batches import Options
from elmo_client.session import Session, Vectors
from elmo_client.steps import END, Call, Collect, Compute, Drive, Pause, Start, Step, Steps, Take
from elmo_model.task import Task

_Result = TypeVar("_Result")


class Client:
    """Talks to a server from threads; may itself be shared by threads. To be closed."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout_seconds: float = 60.0,
        patience_seconds: float = 60.0,
        in_flight: int = 4,
    ) -> None:
        """Point at a server; nothing is sent yet.

        Args:
            url: where it is, such as "http://127.0.0.1:8000".
            api_key: one of the server's keys, where it asks for one.
            timeout_seconds: for the answer to one request, which the server is told.
            patience_seconds: how long a request that may be sent again is sent again.
            in_flight: requests at once, at least 1.

        Raises CannotSend for a URL that is none, and for a key that no header can carry.
        """
        self._session = Session(url, api_key, timeout_seconds, patience_seconds, in_flight)
        self._http = httpx.Client(**self._session.http_options)
        self._threads = ThreadPoolExecutor(in_flight, "elmo-client")
        self._closed = threading.Event()

    def embed(
        self, sentences: Iterable[Sequence[str]], **options: Unpack[Options]
    ) -> list[Vectors]:
        """Return one array a sentence, in the order given; any number of sentences.

        At most one of `layers` ("all", "top", "average" or numbers), `task` (a registered name) and
        `mix` (raw weights, or {"weights", "gamma", "layer_norm"}); "all" where none is given. A
        sentence of n tokens is (layers, n, 2P) for "all" and for numbers, else (n, 2P); `pooling`
        ("none", "mean" or "max") removes the n. `dtype` is "float32" or "float16".
        """
        return list(self.stream(sentences, **options))

    def stream(
        self, sentences: Iterable[Sequence[str]], **options: Unpack[Options]
    ) -> Iterator[Vectors]:
        """Yield what `embed` returns, sentence by sentence, with a bounded part of it in memory.

        `sentences` may be endless: it is read as far as requests are in flight.
        """
        rows = iter(sentences)
        running: deque[Future[list[Vectors]]] = deque()
        drive = Drive(self._session.stream(options))
        try:
            while drive.step is not None:
                match drive.step:
                    case Take():
                        drive.answer(next(rows, END))
                    case Start(steps):
                        running.append(self._threads.submit(self._run, steps))
                        drive.answer(None)
                    case Collect(most):
                        while running and (len(running) > most or running[0].done()):
                            yield from running.popleft().result()
                        drive.answer(None)
                    case _:
                        self._perform(drive)
        finally:
            for future in running:
                future.cancel()

    def info(self) -> dict[str, Any]:
        """Return what GET /info says; asked once."""
        return self._run(self._session.info())

    def tasks(self) -> tuple[Task, ...]:
        """Return the registered tasks in the order of their names."""
        return self._run(self._session.tasks())

    def put_task(
        self,
        name: str,
        weights: Sequence[float],
        *,
        gamma: float = 1.0,
        layer_norm: bool = False,
        description: str = "",
    ) -> Task:
        """Register a task, or replace the one of its name, and return it."""
        return self._run(self._session.put_task(name, weights, gamma, layer_norm, description))

    def delete_task(self, name: str) -> None:
        """Forget a task. Raises NotFound where there is none."""
        self._run(self._session.delete_task(name))

    def close(self) -> None:
        """Give up what is in flight, and the connections."""
        self._closed.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, steps: Steps[_Result]) -> _Result:
        drive = Drive(steps)
        while drive.step is not None:
            self._perform(drive)
        return drive.result

    def _perform(self, drive: Drive[Any]) -> None:
        try:
            came = self._do(drive.step)
        except Exception as error:  # the generator knows which it can do something about
            drive.fail(error)
        else:
            drive.answer(came)

    def _do(self, step: Step) -> Any:
        match step:
            case Call(method, path, content):
                return self._http.request(method, path, content=content, headers=step.headers)
            case Pause(seconds):
                if self._closed.wait(seconds):
                    raise Unreachable("the client was closed while it waited to try again")
                return None
            case Compute(function):
                return function()
