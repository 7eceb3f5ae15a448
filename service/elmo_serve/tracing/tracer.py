"""Requests as spans of OpenTelemetry's SDK, which samples them and sends them to a collector."""

from __future__ import annotations

import importlib.metadata
import threading
import time
from collections.abc import Mapping
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanKind, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from elmo_serve.tracing import Trace

_CLOSE_SECONDS: Final = 2.0
"""Seconds that a stop waits for the last spans, where the collector does not answer."""


class Tracer:
    """Begins the span of each request, and makes those of its stages after the response.

    Raises ValueError for variables that are not allowed.
    """

    def __init__(self) -> None:
        version = importlib.metadata.version("elmo-serve")
        own = Resource.create({"service.name": "elmo-serve", "service.version": version})
        resource = own.merge(OTELResourceDetector().detect())
        # Its own handler at exit would wait for up to 30 s.
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("elmo_serve", version)
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, traceparent: str | None, tracestate: str) -> Trace | None:
        """Begin the span of a request, below the client's where it has sent one.

        Returns None for a request that is not sampled and whose client has no trace.
        """
        parent = Context()
        if traceparent is not None:
            carrier = {"traceparent": traceparent, "tracestate": tracestate}
            parent = self._propagator.extract(carrier, parent)
        span = self._tracer.start_span("HTTP", parent, SpanKind.SERVER)
        if not (span.is_recording() or get_current_span(parent).get_span_context().is_valid):
            return None
        return Trace(span, f"{span.get_span_context().trace_id:032x}", span.is_recording())

    def end(
        self, trace: Trace, name: str, attributes: Mapping[str, str | int], failure: str | None
    ) -> None:
        """End the span of a request that has been answered; `failure` is a fault of the server's.

        The last stage, `send`, ends now if a response was written.
        """
        if trace.stages and trace.stages[-1].name == "encode":
            trace.end_stage("send")
        parent = set_span_in_context(trace.span, Context())
        for stage in trace.stages:
            links = [
                Link(each.span.get_span_context()) for each in stage.traces if each is not trace
            ]
            span = self._tracer.start_span(
                stage.name,
                parent,
                attributes=stage.attributes,
                links=links,
                start_time=trace.wall_ns(stage.start),
            )
            span.end(trace.wall_ns(stage.end))
        trace.span.update_name(name)
        trace.span.set_attributes(attributes)
        if failure is not None:
            trace.span.set_attribute("error.type", failure)
            trace.span.set_status(StatusCode.ERROR)
        trace.span.end(trace.wall_ns(time.monotonic()))

    def close(self) -> None:
        """Send the spans that wait, for `_CLOSE_SECONDS` at most."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)
