"""Spans on their way to the collector: sent by a thread, dropped and counted where it fails."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from prometheus_client import Counter

_log = logging.getLogger("elmo_serve.tracing")


class CollectorExporter(SpanExporter):
    """OpenTelemetry's exporter of OTLP over HTTP, with a count of the spans that were lost.

    `waiting` is the number of spans that are queued or being sent.
    """

    def __init__(self, dropped: Counter) -> None:
        self.waiting = 0
        self._dropped = dropped
        self._lock = threading.Lock()  # spans are added on the event loop and sent by a thread
        self._messages = _FirstOfOutage()
        self._logger = logging.getLogger(trace_exporter.__name__)
        self._exporter: SpanExporter = trace_exporter.OTLPSpanExporter()

    def start(self) -> None:
        """Keep all but the first message of each outage out of the log, until `shutdown`."""
        self._logger.addFilter(self._messages)

    def add(self, count: int) -> None:
        """Count spans that are queued, or with a negative number those that were sent or lost."""
        with self._lock:
            self.waiting += count

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans. A failure takes 10 s at most (OTEL_EXPORTER_OTLP_TIMEOUT)."""
        result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS:
            self._dropped.inc(len(spans))
        elif self._messages.is_failing:
            self._messages.is_failing = False
            _log.info("the collector takes spans again")
        self.add(-len(spans))
        return result

    def shutdown(self) -> None:
        """Send nothing more."""
        self._exporter.shutdown()
        self._logger.removeFilter(self._messages)


class BoundedProcessor(BatchSpanProcessor):
    """A BatchSpanProcessor that counts the spans for which its queue has no room."""

    def __init__(self, exporter: CollectorExporter, size: int, dropped: Counter) -> None:
        super().__init__(exporter, max_queue_size=size)
        exporter.start()
        self._collector = exporter
        self._dropped = dropped
        self._size = size

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span to be sent."""
        if self._collector.waiting >= self._size:
            self._dropped.inc()
        else:
            self._collector.add(1)
            super().on_end(span)


class _FirstOfOutage(logging.Filter):
    """Lets one message of the exporter through while the collector fails: each batch has some."""

    is_failing = False

    def filter(self, record: logging.LogRecord) -> bool:
        is_first = not self.is_failing
        self.is_failing = True
        return is_first
