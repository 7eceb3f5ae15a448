"""The JSON process parses and writes as the server would."""

from __future__ import annotations

import numpy as np
import orjson
import pytest

from elmo_serve.errors import InvalidRequest, ServiceError
from elmo_serve.http.request.parsing import Parsed, RequestLimits
from elmo_serve.workers.json_worker import Parse, Source, Write, Written, work
from elmo_serve.workers.process import Parent
from elmo_serve.workers.shared_memory import Bytes, Segment, SegmentHandle, SharedMemoryPool, view
from elmo_serve.workers.task_messages import Part, Started

LIMITS = RequestLimits(10_000, 1_000)


class Server(Parent):
    """The server's end, in the same process: gives one task and records the messages."""

    def __init__(self) -> None:
        self.segments = SharedMemoryPool()
        self.messages: list[object] = []
        self._arrays: dict[int, Bytes] = {}

    def acquire(self, size: int) -> tuple[Segment, Bytes]:
        segment, array = self.segments.acquire(size)
        self._arrays[segment.id] = array
        return segment, array

    def do(self, task: Write | Parse) -> list[object]:
        self._task: Write | Parse | None = task
        with pytest.raises(EOFError):
            work(self)
        return self.messages

    def receive(self) -> Write | Parse:
        task, self._task = self._task, None
        if task is None:
            raise EOFError
        return task

    def send(self, message: object) -> None:
        self.messages.append(message)

    def memory(self, segment: Segment | SegmentHandle) -> Bytes:
        return self._arrays[segment.id]


def parse(body: bytes) -> list[object]:
    server = Server()
    segment, array = server.acquire(len(body))
    array[: len(body)] = np.frombuffer(body, np.uint8)
    return server.do(Parse(segment, len(body), LIMITS, "/embed"))


def test_vectors_are_written_with_commas_between_sentences() -> None:
    server = Server()
    segment, array = server.acquire(1_000)
    view(array, 0, (2, 2), "float32")[...] = 1.5
    view(array, 64, (1, 2), "float32")[...] = -2
    target, text = server.acquire(1_000)
    sources = (Source(segment, 0, (2, 2), "float32"), Source(segment, 64, (1, 2), "float32"))
    started, written = server.do(Write(sources, target))

    assert isinstance(started, Started)
    assert isinstance(written, Written)
    assert orjson.loads(b"[" + text[: written.size].tobytes() + b"]") == [
        [[1.5, 1.5], [1.5, 1.5]],
        [[-2.0, -2.0]],
    ]


def test_a_request_arrives_in_slices_and_its_options_last() -> None:
    sentences = [[f"w{number}"] for number in range(2_500)]
    _, *slices, last = parse(orjson.dumps({"sentences": sentences, "layers": "top"}))

    texts = [text for part in slices if isinstance(part, Part) for text in part.items]
    assert [orjson.loads(text) for text in texts] == sentences
    assert len(slices) == 3
    assert isinstance(last, Parsed)
    assert last.lengths == [1] * 2_500
    assert not last.sentences


def test_a_request_that_is_at_fault_is_an_error_as_a_message() -> None:
    _, error = parse(orjson.dumps({"sentences": [["a", 1]]}))

    assert isinstance(error, ServiceError)
    assert isinstance(error, InvalidRequest)
    assert error.errors[0].pointer == "/sentences/0/1"
