"""The child's side of a JSON worker: it parses large requests and writes answers as JSON.

JSON costs so much processor time that it would block the event loop of the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from elmo_serve.errors import ServiceError
from elmo_serve.http.media_types import json_text
from elmo_serve.http.request.parsing import (
    Parsed,
    RequestLimits,
    TextRequest,
    parse,
    parse_tokenize,
)
from elmo_serve.http.text import bodies as text_bodies
from elmo_serve.http.text.bodies import TextBody
from elmo_serve.workers.process import Parent
from elmo_serve.workers.shared_memory import Segment, SegmentHandle, view
from elmo_serve.workers.task_messages import Part, Started

_SLICE_BYTES, _SLICE_SENTENCES = 1 << 18, 1_000
"""Bytes and sentences of a parsed request in one message.

The event loop unpickles a message in one go: larger slices block it longer, smaller ones cost more
messages (`benchmarks/event_loop.py`).
"""


@dataclass(frozen=True, slots=True)
class Source:
    """One sentence's vectors in a segment, as `shared_memory.view` takes them."""

    segment: Segment | SegmentHandle
    offset: int
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Write:
    """The task to write vectors to `target` as JSON, with commas between the sentences.

    With `first` each is an embedding object of OpenAI, numbered from `first` on.
    """

    sources: tuple[Source, ...]
    target: Segment | SegmentHandle
    first: int | None = None


@dataclass(frozen=True, slots=True)
class Parse:
    """The task to parse the first `size` bytes of `source` as the body of a route in `PARSERS`."""

    source: Segment | SegmentHandle
    size: int
    limits: RequestLimits
    route: str


JsonTask = Write | Parse

PARSERS: dict[str, Callable[[memoryview, RequestLimits], Parsed | TextRequest | TextBody]] = {
    "/embed": parse,
    "/tokenize": parse_tokenize,
    **{form: partial(text_bodies.parse, form=form) for form in text_bodies.FORMS},
}


@dataclass(frozen=True, slots=True)
class Written:
    """The JSON text is in the target of the task; it has `size` bytes."""

    size: int


def work(parent: Parent) -> None:
    """Do tasks until the server closes the channel."""
    parent.send(Started())
    while True:
        task: JsonTask = parent.receive()
        if isinstance(task, Write):
            parent.send(_write(parent, task))
            continue
        result = _parse(parent, task)
        if isinstance(result, TextBody) or (isinstance(result, Parsed) and result.text is None):
            _send_slices(parent, result.sentences)
            result = replace(result, sentences=[])
        elif isinstance(result, Parsed) and result.text is not None:
            _send_slices(parent, result.text.texts)
            result = replace(result, text=replace(result.text, texts=[]))
        elif isinstance(result, TextRequest):
            _send_slices(parent, result.texts)
            result = replace(result, texts=[])
        parent.send(result)


def _write(parent: Parent, task: Write) -> Written:
    memory, end = parent.memory(task.target).data, 0
    arrays = (
        view(parent.memory(source.segment), source.offset, source.shape, source.dtype)
        for source in task.sources
    )
    texts = json_text.texts(arrays)
    for text in texts if task.first is None else json_text.embedding_objects(texts, task.first):
        start, end = end, end + len(text)
        memory[start:end] = text
    return Written(end)


def _parse(parent: Parent, task: Parse) -> Parsed | TextRequest | TextBody | ServiceError:
    try:
        return PARSERS[task.route](parent.memory(task.source).data[: task.size], task.limits)
    except ServiceError as error:
        return error


def _send_slices(parent: Parent, items: Sequence[bytes | str]) -> None:
    for some in _slices(items):
        parent.send(Part(some))


def _slices(sentences: Sequence[bytes | str]) -> Iterator[Sequence[bytes | str]]:
    start, size = 0, 0
    for index, sentence in enumerate(sentences):
        size += len(sentence)
        if size >= _SLICE_BYTES or index - start + 1 == _SLICE_SENTENCES:
            yield sentences[start : index + 1]
            start, size = index + 1, 0
    yield sentences[start:]
