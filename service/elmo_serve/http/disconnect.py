"""Work that is cancelled when its client disconnects."""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from starlette.types import Receive

_T = TypeVar("_T")

_UNWATCHED_SECONDS: Final = 0.02
"""Work that takes less is not watched, which saves an asyncio task for each request. A larger value
computes longer for clients that have left."""


class DisconnectError(Exception):
    """The client closed the connection before its request was answered."""


async def unless_disconnected(receive: "Receive", work: Coroutine[Any, Any, _T]) -> _T:
    """Await `work`; cancel it when the client disconnects first.

    The body must have been read, because `receive` is used up to `http.disconnect`.

    Raises:
        DisconnectError: the client left.
    """
    loop = asyncio.get_running_loop()
    watchers: list[asyncio.Task[None]] = []
    limit = asyncio.timeout(None)

    def watch() -> None:
        watcher = loop.create_task(_disconnected(receive))
        watchers.append(watcher)
        watcher.add_done_callback(expire)

    def expire(watcher: asyncio.Future[None]) -> None:
        if not watcher.cancelled() and watchers:
            limit.reschedule(loop.time())

    start = loop.call_later(_UNWATCHED_SECONDS, watch)
    try:
        async with limit:
            try:
                return await work
            finally:
                start.cancel()
                for watcher in watchers:
                    watcher.cancel()
                watchers.clear()
    except TimeoutError:
        if limit.expired():
            raise DisconnectError from None
        raise


async def _disconnected(receive: "Receive") -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
