"""Both clients behind the methods of the synchronous one, so that one test covers the two."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Self

from elmo_client import AsyncClient, Client

_END = object()


class RunAsyncClient:
    """An AsyncClient with an event loop, which runs while a method is called."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.client = AsyncClient(*arguments, **options)
        self._stack = ExitStack()
        self._runner = self._stack.enter_context(asyncio.Runner())
        self._stack.callback(lambda: self._runner.run(self.client.close()))

    def stream(self, sentences: Any, **options: Any) -> Iterator[Any]:
        return self._generated(self.client.stream(sentences, **options))

    def stream_text(self, texts: Any, **options: Any) -> Iterator[Any]:
        return self._generated(self.client.stream_text(texts, **options))

    def _generated(self, arrays: AsyncIterator[Any]) -> Iterator[Any]:
        def generate() -> Iterator[Any]:
            try:
                while (array := self._runner.run(_next(arrays))) is not _END:
                    yield array
            finally:
                self._runner.run(arrays.aclose())  # type: ignore[attr-defined]

        return generate()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._call, getattr(self.client, name))

    def _call(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        return self._runner.run(method(*arguments, **options))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


async def _next(arrays: AsyncIterator[Any]) -> Any:
    return await anext(arrays, _END)


CLIENTS: dict[str, Any] = {"Client": Client, "AsyncClient": RunAsyncClient}
