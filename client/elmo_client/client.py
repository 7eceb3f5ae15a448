"""The client for threads: the asynchronous one, on an event loop in a thread of its own."""

import asyncio
import functools
import os
import socket
import threading
import weakref
from collections import deque
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, cast

import anyio
from anyio.from_thread import BlockingPortal

from elmo_client.async_client import AsyncClient
from elmo_client.batches import EmbedRequest, RequestBatches
from elmo_client.errors import CannotSend, Unreachable
from elmo_client.http import ClientOptions, Session
from elmo_client.responses import models_of
from elmo_client.results import EmbeddedText, Vectors
from elmo_client.selection import EmbedOptions, Selection

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


class _Loop(asyncio.SelectorEventLoop):
    """Resolves names also after the end of the main thread, when executors take no work."""

    async def getaddrinfo(self, *arguments: Any, **options: Any) -> Any:
        try:
            return await super().getaddrinfo(*arguments, **options)
        except RuntimeError:
            return socket.getaddrinfo(*arguments, **options)


class EventLoopThread:
    """Runs coroutines until it is closed or dropped; then the session is closed as well.

    `anyio.from_thread.start_blocking_portal` does the same as a context manager. Its generator
    waits for the thread when it is collected: at the end of a program that did not close its
    client, when daemon threads no longer run, it would wait for ever.
    """

    def __init__(self, session: Session) -> None:
        started: Future[BlockingPortal] = Future()
        run = partial(anyio.run, backend_options={"loop_factory": _Loop})
        self._thread = threading.Thread(
            target=run, args=(_serve, session, started), name="elmo-client", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError as error:  # from Python 3.12 on, in atexit
            raise Unreachable(f"{error}; create the client earlier") from error
        self._portal = started.result()
        self._process = os.getpid()
        self._lifespan = self._portal.start_task_soon(_lifespan, self._portal)
        weakref.finalize(self, self._lifespan.cancel).atexit = False

    def start(
        self, function: Callable[..., Awaitable[_Result]], *arguments: Any
    ) -> Future[_Result]:
        """Start a coroutine. Raises Unreachable if this is closed."""
        if os.getpid() != self._process:  # threads do not survive a fork
            raise Unreachable("the client belongs to the parent process; create one in each")
        try:
            return self._portal.start_task_soon(function, *arguments)
        except RuntimeError as error:
            raise Unreachable("the client is closed") from error

    def close(self) -> None:
        """Cancel all coroutines, close the session and wait for the thread to end."""
        self._lifespan.cancel()
        self._thread.join()


def result(future: Future[_Result]) -> _Result:
    """Wait for the result of a coroutine.

    Raises Unreachable if the loop was closed in the meantime. The coroutine is cancelled if the
    wait is interrupted, by Ctrl-C for example.
    """
    try:
        return future.result()
    except CancelledError:
        raise Unreachable("the client was closed before the response came") from None
    finally:
        future.cancel()


def blocking(
    method: Callable[Concatenate[Any, _Arguments], Coroutine[Any, Any, _Result]],
) -> Callable[Concatenate[Any, _Arguments], _Result]:
    """Return a method of an asynchronous class as one for threads, with its arguments and text.

    An object that has it holds one of that class in `_async`, and runs coroutines by `_call`.
    """

    @functools.wraps(method)
    def call(self: Any, /, *arguments: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
        found: _Result = self._call(method, self._async, *arguments, **options)
        return found

    return call


def iterating(
    method: Callable[Concatenate[Any, _Arguments], AsyncIterator[_Result]],
) -> Callable[Concatenate[Any, _Arguments], Iterator[_Result]]:
    """Return a method of an asynchronous class as one for threads, with its arguments and text.

    The method runs unchanged on the sync class, which has its own `_session` and `_stream`.
    """
    return cast("Callable[Concatenate[Any, _Arguments], Iterator[_Result]]", method)


async def _serve(session: Session, started: Future[BlockingPortal]) -> None:
    async with BlockingPortal() as portal:
        started.set_result(portal)
        await portal.sleep_until_stopped()
    await session.close()


async def _lifespan(portal: BlockingPortal) -> None:
    """Wait until cancelled; then cancel all other coroutines and stop the loop."""
    try:
        await anyio.sleep_forever()
    finally:
        await portal.stop(cancel_remaining=True)


class Client:
    """Asks a server for vectors. Threads may share it. Close it after use."""

    def __init__(self, url: str, **options: Unpack[ClientOptions]) -> None:
        """Set the address of the server; nothing is sent yet.

        Args:
            url: the server's address, such as "http://localhost:8000".
            **options: `api_key`, `model`, `timeout_seconds`, `patience_seconds` and `in_flight`;
                see `ClientOptions`.

        Raises CannotSend for an invalid argument.
        """
        self._async = AsyncClient(url, **options)
        self._session = self._async._session
        self._loop = EventLoopThread(self._session)

    def embed(
        self, sentences: Iterable[Sequence[str]], **options: Unpack[EmbedOptions]
    ) -> list[Vectors]:
        """Return one array per sentence, in the order given, for any number of sentences.

        Args:
            sentences: each a list of tokens.
            **options: `layers`, `task`, `mix`, `pooling`, `dtype` and `normalize`; see
                `EmbedOptions`.

        The array of a sentence of n tokens has the shape (layers, n, 2P) for "all" and for a list,
        (n, layers x 2P) for "concat", otherwise (n, 2P). Pooling removes the n.

        Raises CannotSend before a sentence is sent that the server would refuse, and the other
        subclasses of ElmoError for a server that does not respond, or refuses.
        """
        arrays = self.stream(sentences, **options)
        return list(arrays)

    stream = iterating(AsyncClient.stream)

    def embed_text(
        self, texts: Iterable[str], *, tokenizer: str | None = None, **options: Unpack[EmbedOptions]
    ) -> list[EmbeddedText]:
        """Return tokens, offsets and vectors of each text, in the order given.

        Args:
            texts: any number of strings, each a sentence that the server splits into tokens.
            tokenizer: "ptb", "moses", "whitespace" or "characters"; None for that of the model.

        The other arguments, the shapes of the vectors and the errors are those of `embed`.
        """
        found = self.stream_text(texts, tokenizer=tokenizer, **options)
        return list(found)

    stream_text = iterating(AsyncClient.stream_text)

    tokenize = blocking(AsyncClient.tokenize)

    neighbours = blocking(AsyncClient.neighbours)

    score = blocking(AsyncClient.score)

    substitutes = blocking(AsyncClient.substitutes)

    info = blocking(AsyncClient.info)

    centre = blocking(AsyncClient.centre)

    @property
    def dimension(self) -> int:
        """2P, the width of the model's vectors; (L + 1) 2P for `concat`."""
        return int(self.info()["dimension"])

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models that the server has."""
        return models_of(self.info())

    tasks = blocking(AsyncClient.tasks)

    def close(self) -> None:
        """Cancel the requests in flight and close the connections.

        Calls that wait in other threads raise Unreachable.
        """
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stream(
        self,
        sentences: Iterable[Sequence[str]],
        cut: type[RequestBatches],
        selection: Selection,
        embed: Callable[[EmbedRequest, Mapping[str, Any]], Awaitable[list[_Result]]],
    ) -> Iterator[_Result]:
        if isinstance(sentences, AsyncIterable):
            raise CannotSend("an async iterable is read by AsyncClient; expected another iterable")
        info = self.info()
        selection = selection.with_members(model=self._session.model)
        batches = cut(info, selection, self._session.in_flight)
        running: deque[Future[list[_Result]]] = deque()
        try:
            for request in batches.cut(sentences):
                running.append(self._loop.start(embed, request, info))
                while len(running) >= self._session.in_flight or (running and running[0].done()):
                    yield from result(running.popleft())
            while running:
                yield from result(running.popleft())
        finally:
            for each in running:
                each.cancel()

    def _call(
        self, function: Callable[..., Awaitable[_Result]], *arguments: Any, **options: Any
    ) -> _Result:
        # Iterators are read in this thread: they may ask the same client.
        read = list(map(_read, arguments))
        options = {name: _read(value) for name, value in options.items()}
        return result(self._loop.start(partial(function, **options), *read))


def _read(value: Any) -> Any:
    """Return a list of what an iterator yields, and any other value itself."""
    return list(value) if isinstance(value, Iterator) else value
