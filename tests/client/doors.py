"""Both clients behind the methods of the one for threads, so that one test is for both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Self

from elmo_client import AsyncClient, Client

END = object()


class Coroutines:
    """An AsyncClient with an event loop of its own, which runs while a method does."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.client = AsyncClient(*arguments, **options)
        self._stack = ExitStack()
        self._runner = self._stack.enter_context(asyncio.Runner())
        self._stack.callback(lambda: self._runner.run(self.client.close()))

    def stream(self, sentences: Any, **options: Any) -> Iterator[Any]:
        arrays = self.client.stream(sentences, **options)
        try:
            while (array := self._runner.run(_next(arrays))) is not END:
                yield array
        finally:
            self._runner.run(arrays.aclose())  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._call, getattr(self.client, name))

    def _call(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        return self._runner.run(method(*arguments, **options))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


async def _next(arrays: AsyncIterator[Any]) -> Any:
    return await anext(arrays, END)


DOORS: dict[str, Any] = {"threads": Client, "coroutines": Coroutines}
