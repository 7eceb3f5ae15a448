"""The times of one request that are noted while it is answered; `tracer` makes them spans."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a request, or a batch that a worker computed, in seconds of `time.monotonic`.

    `traces` are those of all sampled requests that waited for a batch.
    """

    name: str
    start: float
    end: float
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    traces: tuple[Trace, ...] = ()


@dataclass(slots=True, eq=False)
class Trace:
    """The trace of one request. The spans of its stages are made after its response.

    Attributes:
        span: the span of the whole request, of OpenTelemetry's API; it has begun.
        id: the id of the trace, in hexadecimal.
        is_sampled: whether its spans are sent.
        last: the end of the last stage, where the next one begins, in seconds of `time.monotonic`.
    """

    span: Any
    id: str
    is_sampled: bool
    stages: list[Stage] = field(default_factory=list)
    last: float = field(default_factory=time.monotonic)
    _epoch_ns: int = field(default_factory=lambda: time.time_ns() - time.monotonic_ns())

    @property
    def header(self) -> bytes:
        """The value of `traceresponse`, by which a client finds the span."""
        return f"00-{self.id}-{self.span.get_span_context().span_id:016x}-01".encode()

    def end_stage(self, name: str) -> None:
        """Note a stage that began with the end of the last one."""
        now = time.monotonic()
        self.stages.append(Stage(name, self.last, now))
        self.last = now

    def end_queue(self, start: float, end: float | None) -> None:
        """Note the time in the queue, after the last batch; `end` is None if none was begun."""
        self.last = time.monotonic()
        self.stages.append(Stage("queue", start, self.last if end is None else end))

    def wall_ns(self, seconds: float) -> int:
        """Map a time of `time.monotonic` to nanoseconds since 1970, steps of the clock ignored."""
        return self._epoch_ns + int(seconds * 1e9)
