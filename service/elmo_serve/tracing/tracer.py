"""Requests as spans of OpenTelemetry: which are sampled, and what is sent of them.

The event loop hands over one span for each request. The thread that sends makes those of its parts:
many at once, in a warm cache, they take a fraction of the time (`benchmarks.echo --traces`).
"""

from __future__ import annotations

import importlib.metadata
import logging
import random
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    get_current_span,
)
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

    Raises ValueError, which names the variable, for values that are not allowed.
    Decides before anything of OpenTelemetry is called: its own sampler takes 4 us of each request,
    its span that is not recorded 9 us (`benchmarks.echo --traces`).
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        name = environment.get("OTEL_TRACES_SAMPLER") or "parentbased_always_on"
        ratio = environment.get("OTEL_TRACES_SAMPLER_ARG") or "1"
        shares = {"always_on": "1", "always_off": "0", "traceidratio": ratio}
        self._follows_parent = name.startswith(_PARENT_BASED)
        share = shares.get(name.removeprefix(_PARENT_BASED))
        if share is None:
            samplers = f"{', '.join(shares)}, each also behind {_PARENT_BASED}"
            raise ValueError(f"OTEL_TRACES_SAMPLER={name!r}; it can be {samplers}")
        try:
            self._bound = TraceIdRatioBased(float(share)).bound
        except ValueError:
            raise ValueError(
                f"OTEL_TRACES_SAMPLER_ARG={ratio!r}; it can be a number from 0 to 1"
            ) from None

    def decide(self, traceparent: str | None) -> tuple[str | None, bool]:
        """Return the id of the client's trace, if it has one, and whether the request is traced."""
        sent = None if traceparent is None else _TRACEPARENT.fullmatch(traceparent)
        if sent is None:
            return None, random.getrandbits(64) < self._bound
        trace_id, flags = sent.groups()
        if self._follows_parent:
            return trace_id, bool(int(flags, 16) & 1)
        return trace_id, int(trace_id[16:], 16) < self._bound


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


class Tracer:
    """Begins the traces of sampled requests and hands their spans over.

    Requests answer first: a thread makes and sends the spans after the response. OpenTelemetry's
    own tracer would make them on the event loop, where those of one request take 155 us.
    """

    def __init__(self, environment: Mapping[str, str], dropped: Counter) -> None:
        self.sampling = Sampling(environment)
        version = importlib.metadata.version("elmo-serve")
        own = Resource.create({"service.name": "elmo-serve", "service.version": version})
        self._origin = {
            "resource": own.merge(OTELResourceDetector().detect()),
            "instrumentation_scope": InstrumentationScope("elmo_serve", version),
        }
        self._ids = RandomIdGenerator()
        size = int(environment.get("OTEL_BSP_MAX_QUEUE_SIZE") or _QUEUED_SPANS)
        self._exporter = CollectorExporter(size, dropped)
        self._processor = BatchSpanProcessor(self._exporter, max_queue_size=size)
        self._exporter.start()
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, traceparent: str | None, tracestate: Iterable[str]) -> Trace:
        """Begin the trace of a sampled request, as a part of the client's if it has sent one."""
        parent, trace_id, state = None, 0, None
        if traceparent is not None:
            carrier = {"traceparent": traceparent, "tracestate": ",".join(tracestate)}
            sent = self._propagator.extract(carrier, Context())
            parent = get_current_span(sent).get_span_context()
            trace_id, state = parent.trace_id, parent.trace_state
        if not trace_id:  # none was sent, or none that is valid
            parent, trace_id = None, self._ids.generate_trace_id()
        span_id, flags = self._ids.generate_span_id(), TraceFlags(TraceFlags.SAMPLED)
        context = SpanContext(trace_id, span_id, False, flags, state)
        header = f"00-{trace_id:032x}-{span_id:016x}-{flags:02x}"
        return Trace(context, parent, f"{trace_id:032x}", header.encode())

    def end(
        self,
        trace: Trace,
        name: str,
        attributes: Mapping[str, str | int],
        failure: str | None,
    ) -> None:
        """Hand over a request that has been answered; `failure` is a fault of the server's.

        The last stage, `send`, ends now if a response was written.
        """
        if trace.parts and trace.parts[-1].name == "encode":
            trace.end_stage("send")
        request = RequestSpan(
            trace,
            name=name,
            attributes=attributes if failure is None else {**attributes, "error.type": failure},
            kind=SpanKind.SERVER,
            status=Status(StatusCode.UNSET if failure is None else StatusCode.ERROR),
            start_time=trace.wall_ns(trace.began),
            end_time=trace.wall_ns(time.monotonic()),
            **self._origin,
        )
        if self._exporter.reserve(request):
            self._processor.on_end(request)

    @property
    def waiting(self) -> int:
        """The spans that are queued or being sent."""
        return self._exporter.waiting

    def close(self) -> None:
        """Send the spans that wait, for `_CLOSE_SECONDS` at most."""
        closing = threading.Thread(target=self._processor.shutdown, daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)
