"""The stages and the batches of one sampled request, noted while it is answered."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a request's time, in seconds of `time.monotonic`."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class TracedBatch:
    """A batch that a worker computed, with `traces` of all traced requests that waited for it."""

    start: float
    end: float
    attributes: Mapping[str, str | int]
    traces: tuple[Trace, ...]


@dataclass(slots=True, eq=False)
class Trace:
    """One sampled request. Its spans are made after its response, of what is noted here.

    Attributes:
        span: the span of the whole request, of OpenTelemetry's SDK.
        id: the id of the trace, in hexadecimal.
        header: the value of `traceresponse`, by which a client finds the span.
        last: the end of the last stage, where the next one begins.
    """

    span: Any
    id: str
    header: bytes
    stages: list[Stage] = field(default_factory=list)
    batches: list[TracedBatch] = field(default_factory=list)
    last: float = field(default_factory=time.monotonic)
    _epoch_ns: int = field(default_factory=lambda: time.time_ns() - time.monotonic_ns())

    def wall_ns(self, seconds: float) -> int:
        """Map a time of `time.monotonic` to nanoseconds since 1970, steps of the clock ignored."""
        return self._epoch_ns + int(seconds * 1e9)

    def end_stage(self, name: str) -> None:
        """Note a stage that began with the end of the last one."""
        now = time.monotonic()
        self.stages.append(Stage(name, self.last, now))
        self.last = now

    def end_queue(self, start: float, end: float | None) -> None:
        """Note the time in the queue, after the last batch; `end` is None if none was begun."""
        self.last = time.monotonic()
        self.stages.append(Stage("queue", start, self.last if end is None else end))
