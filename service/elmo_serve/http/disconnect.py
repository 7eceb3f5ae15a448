"""Work that ends when the client it is for hangs up."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

_T = TypeVar("_T")

_UNWATCHED_SECONDS = 0.02
"""Short work is over by then; watching it would be a task for every request."""


async def unless_client_leaves(receive: Receive, work: Coroutine[Any, Any, _T]) -> _T:
    """Await ``work``, and cancel it when the client hangs up before it is done.

    The body has been read. Raises ClientDisconnect.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    watcher: asyncio.Task[None] | None = None
    has_left = is_over = False

    def watch() -> None:
        nonlocal watcher
        watcher = loop.create_task(_left(receive))
        watcher.add_done_callback(cancel)

    def cancel(_: asyncio.Future[None]) -> None:
        nonlocal has_left
        if not is_over:  # it may have been scheduled just before
            has_left = True
            task.cancel()

    beginning = loop.call_later(_UNWATCHED_SECONDS, watch)
    try:
        return await work
    except asyncio.CancelledError:
        if not has_left:
            raise
        task.uncancel()
        raise ClientDisconnect from None
    finally:
        is_over = True
        beginning.cancel()
        if watcher is not None:
            watcher.cancel()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
