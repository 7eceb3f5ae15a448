"""A helper process: the calls that it is sent, and its loop."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from elmo_serve.errors import ServiceError
from elmo_serve.processes.arena import BlockName
from elmo_serve.processes.channel import Parent
from elmo_serve.processes.slot import Started


class HelperError(Exception):
    """A function failed in a helper process with an unexpected exception; the text is its trace."""


@dataclass(frozen=True, slots=True)
class Call:
    """The message that gives a process its next function; a `Block` among `arguments` is named."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def work(parent: Parent, prepare: Callable[[], None]) -> None:
    """Run functions in a process until the server closes the channel.

    A function that fails, or whose result cannot be sent, ends its call with an exception: the
    process goes on.
    """
    prepare()
    parent.send(Started())
    while True:
        call: Call = parent.receive()
        arguments = (
            parent.memory(each) if isinstance(each, BlockName) else each for each in call.arguments
        )
        try:
            parent.send(call.function(*arguments))
        except BaseException as error:  # a panic of a library in Rust is no `Exception`
            parent.send(_sendable(error))


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
