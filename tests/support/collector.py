"""A collector of traces that speaks OTLP over HTTP, on the loopback interface."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

_SECONDS = 120
"""A test fails after so long; nothing is measured by it."""


class Collector:
    """What was received. Answers `status`, while `gate` is set."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.status = 200
        self.gate = threading.Event()
        self.gate.set()
        self.resources: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._spans: list[Span] = []
        self._changed = threading.Condition()

    def receive(self, path: str, headers: dict[str, str], body: bytes) -> None:
        """Take the body of one POST."""
        assert (path, headers["content-type"]) == ("/v1/traces", "application/x-protobuf")
        message = ExportTraceServiceRequest()
        message.ParseFromString(body)
        with self._changed:
            self.headers.append(headers)
            for part in message.resource_spans:
                self.resources.append(values(part.resource.attributes))
                for scope in part.scope_spans:
                    assert scope.scope.name == "fastapi"
                    self._spans += scope.spans
            self._changed.notify_all()

    def requests(self, count: int) -> None:
        """Wait until so many POSTs have come."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.headers) >= count, _SECONDS)

    def spans(self, count: int) -> list[Span]:
        """Return all spans, in the order of their starts, once so many have come."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._spans) >= count, _SECONDS)
            return sorted(self._spans, key=lambda span: span.start_time_unix_nano)


def values(attributes: Any) -> dict[str, Any]:
    """Return attributes as a dictionary."""
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value") or "") for each in attributes
    }


@contextmanager
def collector() -> Iterator[Collector]:
    """Listen until the block is left."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            names = {name.lower(): value for name, value in self.headers.items()}
            found.receive(self.path, names, body)
            found.gate.wait(_SECONDS)
            self.send_response(found.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        found.gate.set()
        server.shutdown()
        thread.join()
        server.server_close()
