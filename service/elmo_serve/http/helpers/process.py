"""A helper process: the calls that it is sent, the results that it sends, and its loop."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from elmo_serve.errors import ServiceError
from elmo_serve.processes.arena import BlockName
from elmo_serve.processes.channel import Parent
from elmo_serve.processes.slot import Started

_SLICE_BYTES, _SLICE_ITEMS = 1 << 18, 1_000
"""Bytes and items of a long list in one message.

The event loop unpickles a message in one go: larger slices block it longer, smaller ones cost more
messages (`benchmarks.event_loop` at commit 5a1c226a).
"""


class HelperError(Exception):
    """A function failed in a helper process with an unexpected exception; the text is its trace."""


@dataclass(frozen=True, slots=True)
class SlicedResult:
    """A result, a dataclass, whose long list `sentences` is sent ahead of it in slices.

    A function returns it with the list in place; the caller of `HelperPool.run` gets the result
    itself.
    """

    result: Any

    def with_list(self, items: list[Any]) -> Any:
        """Return the result with another list."""
        return replace(self.result, sentences=items)


@dataclass(frozen=True, slots=True)
class Call:
    """The message that gives a process its next function; a `Block` among `arguments` is named."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ResultSlice:
    """A slice of the long list of a result. The message that ends the call follows."""

    items: Sequence[bytes | str]


def work(parent: Parent, prepare: Callable[[], None]) -> None:
    """Run functions in a process until the server closes the channel.

    A function that fails, or whose result cannot be sent, ends its call with an exception: the
    process goes on.
    """
    prepare()
    parent.send(Started())
    while True:
        call: Call = parent.receive()
        try:
            _answer(parent, call)
        except BaseException as error:  # a panic of a library in Rust is no `Exception`
            parent.send(_sendable(error))


def _answer(parent: Parent, call: Call) -> None:
    """Run a function and send its result."""
    arguments = [
        parent.memory(each) if isinstance(each, BlockName) else each for each in call.arguments
    ]
    result = call.function(*arguments)
    if isinstance(result, SlicedResult):
        items: list[bytes | str] = result.result.sentences
        for part in runs(map(len, items), _SLICE_BYTES, _SLICE_ITEMS):
            parent.send(ResultSlice(items[part]))
        result = SlicedResult(result.with_list([]))
    parent.send(result)


def _sendable(error: BaseException) -> Exception:
    """Return an exception that the server can unpickle; it knows these, and logs all others."""
    if isinstance(error, (ServiceError, MemoryError, OSError)):
        return error
    return HelperError("".join(traceback.format_exception(error)).rstrip())


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
