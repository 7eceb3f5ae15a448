"""A client in Python: sentences in, NumPy arrays out, whatever the server's limits are.

    from service.client import Client

    with Client("http://127.0.0.1:8000") as client:
        for vectors in client.stream(sentences, layers="average"):
            ...                                               # (n, 2P), in the order given

Needs httpx, NumPy, orjson and safetensors; neither torch nor the service's framework.
"""

from __future__ import annotations

import asyncio
import math
import re
import threading
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Self, Unpack
from urllib.parse import quote

import httpx
import orjson

from model.task import Task
from service.client_errors import (
    BadAnswer,
    CannotSend,
    ElmoError,
    InvalidRequest,
    ModelChanged,
    NotFound,
    Problem,
    Refused,
    RequestRefused,
    ServerFailed,
    TooLarge,
    TryLater,
    Unauthorized,
    Unreachable,
)
from service.client_requests import (
    Call,
    Cutter,
    Options,
    Outcome,
    Pause,
    Piece,
    Vectors,
    Wanted,
    exchange,
    json_of,
    pieces,
    pieces_as_they_come,
    vectors_of,
)
from service.encodings import safetensors

_KEY = re.compile(r"[!-~]+")
_CONNECT_SECONDS = 10.0
_GRACE_SECONDS = 5.0  # for a server that answers 504 at the deadline itself


class _Common:
    """What both clients are told, and know of the server."""

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
        if in_flight < 1:
            raise CannotSend(f"in_flight is {in_flight}; it is at least 1")
        if not 0 < timeout_seconds < math.inf:
            raise CannotSend(f"timeout_seconds is {timeout_seconds}; it is above 0 and finite")
        # Said here and without the key: the errors of a refused header would show it.
        if api_key is not None and not _KEY.fullmatch(api_key):
            raise CannotSend("the API key is empty or holds more than printable ASCII, spaces none")
        self._patience = patience_seconds
        self._in_flight = in_flight
        self._known: dict[str, Any] | None = None
        headers = {"Accept-Encoding": "identity", "X-Request-Timeout": f"{timeout_seconds:g}"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {api_key}"
        self._options: dict[str, Any] = {
            "base_url": _checked(url),
            "headers": headers,
            "timeout": httpx.Timeout(timeout_seconds + _GRACE_SECONDS, connect=_CONNECT_SECONDS),
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=in_flight),
        }
        self._open()

    def _open(self) -> None:
        """Make the means of sending."""

    @contextmanager
    def _forgetting(self) -> Iterator[None]:
        """Ask for the server's limits anew after an answer that contradicts them."""
        try:
            yield
        except (ModelChanged, TooLarge):
            self._known = None
            raise

    def _cutter(self, info: Mapping[str, Any], wanted: Wanted) -> Cutter:
        return Cutter(info["limits"], int(info["dimension"]), wanted, self._in_flight)


class Client(_Common):
    """Talks to a server from threads; may itself be shared by threads. To be closed."""

    def _open(self) -> None:
        self._http = httpx.Client(**self._options)
        self._threads = ThreadPoolExecutor(self._in_flight, "elmo-client")
        self._closed = threading.Event()

    def embed(
        self,
        sentences: Iterable[Sequence[str]],
        **options: Unpack[Options],
    ) -> list[Vectors]:
        """Return one array a sentence, in the order given; any number of sentences.

        At most one of `layers` ("all", "top", "average" or numbers), `task` (a registered name) and
        `mix` (raw weights, or {"weights", "gamma", "layer_norm"}); "all" where none is given. A
        sentence of n tokens is (layers, n, 2P) for "all" and for numbers, else (n, 2P); `pooling`
        ("none", "mean" or "max") removes the n. `dtype` is "float32" or "float16".
        """
        return list(self.stream(sentences, **options))

    def stream(
        self,
        sentences: Iterable[Sequence[str]],
        **options: Unpack[Options],
    ) -> Iterator[Vectors]:
        """Yield what `embed` returns, sentence by sentence, with a bounded part of it in memory.

        `sentences` may be endless: it is read as far as requests are in flight.
        """
        info = self.info()
        wanted = Wanted.of(options, info)
        waiting: deque[Future[list[Vectors]]] = deque()
        try:
            for piece in pieces(self._cutter(info, wanted), sentences):
                waiting.append(self._threads.submit(self._embed, piece, info["revision"]))
                while len(waiting) >= self._in_flight or (waiting and waiting[0].done()):
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def info(self) -> dict[str, Any]:
        """Return what GET /info says; asked once."""
        if self._known is None:
            self._known = json_of(self._do(Call("GET", "/info")))
        return self._known

    def tasks(self) -> tuple[Task, ...]:
        """Return the registered tasks in the order of their names."""
        return _tasks(json_of(self._do(Call("GET", "/tasks"))))

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
        task = Task(name, tuple(weights), gamma, layer_norm, description)
        return _task(json_of(self._do(_put(task))))

    def delete_task(self, name: str) -> None:
        """Forget a task. Raises NotFound where there is none."""
        self._do(_delete(name))

    def close(self) -> None:
        """Give up what is in flight, and the connections."""
        self._closed.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _embed(self, piece: Piece, revision: str) -> list[Vectors]:
        with self._forgetting():
            return vectors_of(self._do(_embed_call(piece), piece.first), piece, revision)

    def _do(self, call: Call, first: int = 0) -> httpx.Response:
        steps = exchange(call, self._patience, first)
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                response: httpx.Response = end.value
                return response
            outcome = None
            if isinstance(step, Pause):
                if self._closed.wait(step.seconds):
                    raise Unreachable("the client was closed while it waited to try again")
                continue
            try:
                outcome = self._http.request(
                    step.method, step.path, content=step.content, headers=step.headers
                )
            except httpx.HTTPError as error:
                outcome = error


class AsyncClient(_Common):
    """The same for coroutines."""

    def _open(self) -> None:
        self._http = httpx.AsyncClient(**self._options)

    async def embed(
        self,
        sentences: Iterable[Sequence[str]] | AsyncIterable[Sequence[str]],
        **options: Unpack[Options],
    ) -> list[Vectors]:
        """Return one array a sentence: see `Client.embed`."""
        arrays = self.stream(sentences, **options)
        return [array async for array in arrays]

    async def stream(
        self,
        sentences: Iterable[Sequence[str]] | AsyncIterable[Sequence[str]],
        **options: Unpack[Options],
    ) -> AsyncIterator[Vectors]:
        """Yield one array a sentence: see `Client.stream`."""
        info = await self.info()
        cutter = self._cutter(info, Wanted.of(options, info))
        waiting: deque[asyncio.Task[list[Vectors]]] = deque()
        try:
            async for piece in pieces_as_they_come(cutter, _awaited(sentences)):
                waiting.append(asyncio.create_task(self._embed(piece, info["revision"])))
                while len(waiting) >= self._in_flight or (waiting and waiting[0].done()):
                    for array in await waiting.popleft():
                        yield array
            while waiting:
                for array in await waiting.popleft():
                    yield array
        finally:
            for task_ in waiting:
                task_.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def info(self) -> dict[str, Any]:
        """Return what GET /info says; asked once."""
        if self._known is None:
            self._known = json_of(await self._do(Call("GET", "/info")))
        return self._known

    async def tasks(self) -> tuple[Task, ...]:
        """Return the registered tasks in the order of their names."""
        return _tasks(json_of(await self._do(Call("GET", "/tasks"))))

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
        task = Task(name, tuple(weights), gamma, layer_norm, description)
        return _task(json_of(await self._do(_put(task))))

    async def delete_task(self, name: str) -> None:
        """Forget a task. Raises NotFound where there is none."""
        await self._do(_delete(name))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _embed(self, piece: Piece, revision: str) -> list[Vectors]:
        with self._forgetting():
            response = await self._do(_embed_call(piece), piece.first)
            return await asyncio.to_thread(vectors_of, response, piece, revision)

    async def _do(self, call: Call, first: int = 0) -> httpx.Response:
        steps = exchange(call, self._patience, first)
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                response: httpx.Response = end.value
                return response
            outcome = None
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                continue
            try:
                outcome = await self._http.request(
                    step.method, step.path, content=step.content, headers=step.headers
                )
            except httpx.HTTPError as error:
                outcome = error


def _checked(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise CannotSend(f"{url!r:.80} is no URL: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise CannotSend(f"{url!r:.80} is no URL of a server, such as http://127.0.0.1:8000")
    return parsed


async def _awaited(
    sentences: Iterable[Sequence[str]] | AsyncIterable[Sequence[str]],
) -> AsyncIterator[Sequence[str]]:
    if isinstance(sentences, AsyncIterable):
        async for sentence in sentences:
            yield sentence
    else:
        for sentence in sentences:
            yield sentence


def _embed_call(piece: Piece) -> Call:
    return Call("POST", "/embed", piece.body, safetensors.ENCODING.media_type)


def _put(task: Task) -> Call:
    try:
        return Call("PUT", _path(task.name), orjson.dumps(asdict(task)))
    except orjson.JSONEncodeError as error:
        raise CannotSend(f"task {task.name!r:.60} cannot be written as JSON: {error}") from error


def _delete(name: str) -> Call:
    # Sent twice, the second would find nothing: not repeated when nobody knows whether it was seen.
    return Call("DELETE", _path(name), repeatable=False)


def _path(name: str) -> str:
    return f"/tasks/{quote(name, safe='')}"


def _tasks(found: Any) -> tuple[Task, ...]:
    return tuple(_task(entry) for entry in found["tasks"])


def _task(found: Any) -> Task:
    return Task(
        found["name"],
        tuple(found["weights"]),
        found["gamma"],
        found["layer_norm"],
        found["description"],
    )


__all__ = [
    "AsyncClient",
    "BadAnswer",
    "CannotSend",
    "Client",
    "ElmoError",
    "InvalidRequest",
    "ModelChanged",
    "NotFound",
    "Problem",
    "Refused",
    "RequestRefused",
    "ServerFailed",
    "Task",
    "TooLarge",
    "TryLater",
    "Unauthorized",
    "Unreachable",
]
