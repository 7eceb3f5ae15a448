"""Requests as spans of OpenTelemetry: which are sampled, what is sent of them, and how."""

from __future__ import annotations

import importlib.metadata
import logging
import random
import re
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, TraceIdRatioBased
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import Counter

from elmo_serve.tracing.trace import Trace

_TRACEPARENT: Final = re.compile(
    "(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(?:-.*)?"
)
"""W3C Trace Context: the id of the trace and the flags. Version 00 has nothing after them."""

_PARENT_BASED: Final = "parentbased_"
_QUEUED_SPANS: Final = 2_048  # OpenTelemetry's default
_CLOSE_SECONDS: Final = 2.0
"""For the last spans at a stop. A collector that does not answer holds the stop up for so long."""

_log = logging.getLogger("elmo_serve.tracing")


class Sampling:
    """The share of requests that are traced, by OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG.

    Decides before anything of OpenTelemetry is called: its own sampler takes 4 us of each request,
    its span that is not recorded 9 us (`benchmarks.echo --traces`).
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        name = environment.get("OTEL_TRACES_SAMPLER") or "parentbased_always_on"
        ratio = environment.get("OTEL_TRACES_SAMPLER_ARG") or "1"
        shares = {"always_on": "1", "always_off": "0", "traceidratio": ratio}
        self._follows_parent = name.startswith(_PARENT_BASED)
        try:
            share = float(shares[name.removeprefix(_PARENT_BASED)])
            self._bound = TraceIdRatioBased(share).bound
        except (KeyError, ValueError):
            _log.warning("OTEL_TRACES_SAMPLER=%r with %r is unknown: all is traced", name, ratio)
            self._follows_parent, self._bound = True, TraceIdRatioBased(1.0).bound

    def decide(self, traceparent: str | None) -> tuple[str | None, bool]:
        """Return the id of the client's trace, if it has one, and whether the request is traced."""
        sent = None if traceparent is None else _TRACEPARENT.fullmatch(traceparent)
        if sent is None:
            return None, random.getrandbits(64) < self._bound
        trace_id, flags = sent.groups()
        if self._follows_parent:
            return trace_id, bool(int(flags, 16) & 1)
        return trace_id, int(trace_id[16:], 16) < self._bound


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
        """Return whether `count` spans have room; count those that are dropped."""
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


class Tracer:
    """Begins the traces of sampled requests and makes their spans.

    Requests answer first: the spans of the stages are made after the response, and a thread sends
    them.
    """

    def __init__(self, environment: Mapping[str, str], dropped: Counter) -> None:
        self.sampling = Sampling(environment)
        version = importlib.metadata.version("elmo-serve")
        own = Resource.create({"service.name": "elmo-serve", "service.version": version})
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=own.merge(OTELResourceDetector().detect()),
            shutdown_on_exit=False,
        )
        size = int(environment.get("OTEL_BSP_MAX_QUEUE_SIZE") or _QUEUED_SPANS)
        self._exporter = CollectorExporter(size, dropped)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter, max_queue_size=size))
        self._exporter.start()
        self._tracer = self._provider.get_tracer("elmo_serve", version)
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, traceparent: str | None, tracestate: Iterable[str]) -> Trace:
        """Begin the trace of a sampled request, as a part of the client's if it has sent one."""
        carrier = {"traceparent": traceparent or "", "tracestate": ",".join(tracestate)}
        parent = self._propagator.extract(carrier, Context())
        span = self._tracer.start_span("request", parent, SpanKind.SERVER)
        context = span.get_span_context()
        trace_id = f"{context.trace_id:032x}"
        header = f"00-{trace_id}-{context.span_id:016x}-{context.trace_flags:02x}"
        return Trace(span, trace_id, header.encode())

    def end(
        self,
        trace: Trace,
        name: str,
        attributes: Mapping[str, str | int],
        failure: str | None,
    ) -> None:
        """Make the spans of a request that has been answered; `failure` is a fault of the server's.

        The last stage, `send`, ends now if a response was written.
        """
        if trace.parts and trace.parts[-1].name == "encode":
            trace.end_stage("send")
        if not self._exporter.reserve(1 + len(trace.parts)):
            return
        parent = set_span_in_context(trace.span, Context())
        for part in trace.parts:
            others = (each.span for each in part.traces if each is not trace)
            span = self._tracer.start_span(
                part.name,
                parent,
                attributes=part.attributes,
                links=[Link(other.get_span_context()) for other in others],
                start_time=trace.wall_ns(part.start),
            )
            span.end(trace.wall_ns(part.end))
        trace.span.update_name(name)
        trace.span.set_attributes(attributes)
        if failure is not None:
            trace.span.set_status(Status(StatusCode.ERROR))
            trace.span.set_attribute("error.type", failure)
        trace.span.end(trace.wall_ns(time.monotonic()))

    @property
    def waiting(self) -> int:
        """The spans that are queued or being sent."""
        return self._exporter.waiting

    def close(self) -> None:
        """Send the spans that wait, for `_CLOSE_SECONDS` at most."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)
