"""The work of one request in parts: a few of them are in the pool of helpers at once."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

Result = TypeVar("Result")

_CALLS_OF_REQUEST: Final = 4
"""Calls of one request that are in the pool at once. More let a large request use more processes,
and make small requests of other clients wait for more of its calls."""


def runs(sizes: Iterable[int], most_size: int, most_items: int = sys.maxsize) -> Iterator[slice]:
    """Cut items of these sizes into runs of about `most_size` and at most `most_items`."""
    start, end, size = 0, 0, 0
    for end, each in enumerate(sizes, start=1):
        size += each
        if size >= most_size or end - start == most_items:
            yield slice(start, end)
            start, size = end, 0
    if start < end:
        yield slice(start, end)


async def in_order(
    calls: Iterator[asyncio.Future[Result]], handle: Callable[[Result], None]
) -> None:
    """Pass the results of the calls of one request to `handle`, in their order.

    `calls` queues each call when it is asked for the next one: at most four are in the pool. Those
    that are left are cancelled when one of them, or `handle`, raises.
    """
    pending: deque[asyncio.Future[Result]] = deque()
    try:
        while True:
            pending.extend(islice(calls, _CALLS_OF_REQUEST - len(pending)))
            if not pending:
                return
            handle(await pending.popleft())
    finally:
        for unfinished in pending:
            unfinished.cancel()
