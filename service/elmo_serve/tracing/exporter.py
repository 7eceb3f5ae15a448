"""The way of spans to the collector, which drops and counts them where it fails.

The event loop hands over one span for each request. The thread that sends makes those of its parts:
many at once, in a warm cache, they take a fraction of the time (`benchmarks.echo --traces`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Link, SpanContext
from prometheus_client import Counter

from elmo_serve.tracing.trace import Trace

_log = logging.getLogger("elmo_serve.tracing")


class RequestSpan(ReadableSpan):
    """The span of a request that has been answered. `given` are the arguments of its base class."""

    def __init__(self, trace: Trace, **given: Any) -> None:
        super().__init__(context=trace.context, parent=trace.parent, **given)
        self._trace = trace
        self._parts = tuple(trace.parts)

    def __len__(self) -> int:
        """Return the number of spans that it is sent as."""
        return 1 + len(self._parts)

    def spans(self, ids: RandomIdGenerator) -> Iterator[ReadableSpan]:
        """Make the spans of the parts; return all, the one of the request first."""
        yield self
        own, trace = self.context, self._trace
        for part in self._parts:
            span_id = ids.generate_span_id()
            yield ReadableSpan(
                part.name,
                SpanContext(own.trace_id, span_id, False, own.trace_flags, own.trace_state),
                own,
                self.resource,
                part.attributes,
                links=[Link(each.context) for each in part.traces if each is not trace],
                start_time=trace.wall_ns(part.start),
                end_time=trace.wall_ns(part.end),
                instrumentation_scope=self.instrumentation_scope,
            )


class CollectorExporter(SpanExporter):
    """OpenTelemetry's exporter of OTLP over HTTP, with a bound and a count of what is lost.

    `waiting` is the number of spans that are queued or being sent; `limit` is its bound.
    """

    def __init__(self, limit: int, dropped: Counter) -> None:
        self.waiting = 0
        self._limit = limit
        self._dropped = dropped
        self._lock = threading.Lock()  # spans are added on the event loop and sent by a thread
        self._is_failing = False
        self._ids = RandomIdGenerator()
        self._exporter: SpanExporter = trace_exporter.OTLPSpanExporter()
        self._logger = logging.getLogger(trace_exporter.__name__)

    def start(self) -> None:
        """Keep all but the first message of each outage out of the log, until `shutdown`."""
        self._logger.addFilter(self._is_first)

    def reserve(self, request: RequestSpan) -> bool:
        """Return whether the spans of a request have room; count those that are dropped."""
        count = len(request)
        with self._lock:
            has_room = self.waiting + count <= self._limit
            self.waiting += count if has_room else 0
        if not has_room:
            self._dropped.inc(count)
        return has_room

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send the spans of requests. A failure takes 10 s at most (OTEL_EXPORTER_OTLP_TIMEOUT)."""
        requests = (each for each in spans if isinstance(each, RequestSpan))
        spans = [span for request in requests for span in request.spans(self._ids)]
        result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS:
            self._dropped.inc(len(spans))
        elif self._is_failing:
            self._is_failing = False
            _log.info("the collector takes spans again")
        with self._lock:
            self.waiting -= len(spans)
        return result

    def shutdown(self) -> None:
        """Send nothing more."""
        self._exporter.shutdown()
        self._logger.removeFilter(self._is_first)

    def _is_first(self, record: logging.LogRecord) -> bool:
        was_failing, self._is_failing = self._is_failing, True
        return not was_failing
