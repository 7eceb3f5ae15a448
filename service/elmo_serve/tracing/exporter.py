"""The way of spans to the collector, which drops and counts them where it fails."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from prometheus_client import Counter

_log = logging.getLogger("elmo_serve.tracing")


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
        self._exporter: SpanExporter = trace_exporter.OTLPSpanExporter()
        self._logger = logging.getLogger(trace_exporter.__name__)

    def start(self) -> None:
        """Keep all but the first message of each outage out of the log, until `shutdown`."""
        self._logger.addFilter(self._is_first)

    def reserve(self, count: int) -> bool:
        """Return whether so many spans have room; count those that are dropped."""
        with self._lock:
            has_room = self.waiting + count <= self._limit
            self.waiting += count if has_room else 0
        if not has_room:
            self._dropped.inc(count)
        return has_room

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans. A failure takes 10 s at most (OTEL_EXPORTER_OTLP_TIMEOUT)."""
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
