"""An event loop in a thread of its own, which runs a session's coroutines for other threads."""

import functools
import os
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import anyio
from anyio.from_thread import BlockingPortal

from elmo_client.errors import Unreachable
from elmo_client.transport.session import Session

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


class EventLoopThread:
    """Runs coroutines until it is closed or dropped; then the session is closed as well.

    `anyio.from_thread.start_blocking_portal` does the same as a context manager. Its generator
    waits for the thread when it is collected: at the end of a program that did not close its
    client, when daemon threads no longer run, it would wait for ever.
    """

    def __init__(self, session: Session) -> None:
        started: Future[BlockingPortal] = Future()
        arguments = (_serve, session, started)
        self._thread = threading.Thread(
            target=anyio.run, args=arguments, name="elmo-client", daemon=True
        )
        self._thread.start()
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

    The method only checks its arguments; both classes have the `_session` and `_stream` it uses.
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
