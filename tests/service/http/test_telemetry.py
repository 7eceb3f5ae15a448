"""Traces: when they are on, and the spans that a collector receives."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from elmo_serve.http import telemetry
from elmo_serve.http.checks import PROBES
from tests.support.in_process import InProcess, in_process
from tests.support.servers import free_port

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED, NOT_SAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"
SENTENCES = {"sentences": [["The", "bank"], ["a"]], "layers": "top"}
TIMES = {"elmo.queue_seconds", "elmo.infer_seconds", "elmo.encode_seconds"}

_SECONDS = 120
"""A test fails after so long; nothing is measured by it."""


class Collector:
    """Receives traces by OTLP over HTTP on the loopback interface; responds while `gate` is set."""

    def __init__(self, url: str) -> None:
        self.url = url
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
            self.send_response(200)
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


@pytest.fixture
def to(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that the environment names."""
    with collector() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        yield found


async def embed(serving: InProcess, **headers: str) -> httpx.Response:
    return await serving.client.post("/embed", json=SENTENCES, headers=headers)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_SERVICE_NAME": "elmo", "OTEL_TRACES_SAMPLER": "always_on"},
        {**ENDPOINT, "OTEL_SDK_DISABLED": "true"},
        {**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_traces_are_off(environment: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    assert telemetry.tracer_provider(environment) is None
    assert not caplog.records


@pytest.mark.parametrize("name", [*ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
def test_traces_are_on_where_an_endpoint_is_named(name: str) -> None:
    environment = {name: "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
    provider = telemetry.tracer_provider(environment)

    assert provider is not None
    telemetry.close(provider)


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL='grpc'"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, "'collector:4318'"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "-1"}, "max_queue_size"),
    ],
)
def test_an_unusable_variable_turns_traces_off_with_one_line(
    more: dict[str, str],
    word: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in more.items():  # the SDK reads some by itself
        monkeypatch.setenv(name, value)

    assert telemetry.tracer_provider({**ENDPOINT, **more}) is None
    (record,) = caplog.records
    assert word in record.getMessage()


def test_a_missing_extra_turns_traces_off_with_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)

    assert telemetry.tracer_provider(ENDPOINT) is None
    (record,) = caplog.records
    assert "elmo-serve[traces]" in record.getMessage()


def test_without_an_endpoint_the_extra_is_not_imported() -> None:
    script = (
        "import sys\n"
        "from elmo_serve.http.app import create_app\n"
        "from elmo_serve.http.state import assemble\n"
        "from elmo_serve.settings import Settings\n"
        "create_app(assemble(Settings(), environment={}))\n"
        "extra = ('opentelemetry.sdk', 'opentelemetry.exporter')\n"
        "print([name for name in sys.modules if name.startswith(extra)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


async def test_a_request_is_one_span_below_that_of_its_client(
    to: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "tenant=elmo")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    async with in_process(environment=os.environ, api_keys="secret") as serving:
        sent = {"traceparent": SAMPLED, "tracestate": "vendor=1", "X-Request-Id": "mine"}
        response = await embed(serving, Authorization="Bearer secret", **sent)
        response.raise_for_status()
    (span,) = to.spans(1)

    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert (span.name, span.kind, span.trace_state) == (
        "POST /embed",
        Span.SPAN_KIND_SERVER,
        "vendor=1",
    )
    assert span.status.code == Status.STATUS_CODE_UNSET
    attributes = values(span.attributes)
    assert attributes.items() >= {
        ("http.request.method", "POST"),
        ("http.route", "/embed"),
        ("http.response.status_code", 200),
        ("elmo.request_id", "mine"),
        ("elmo.key", "1"),
        ("elmo.request_bytes", len(response.request.content)),
        ("elmo.sentences", 2),
        ("elmo.tokens", 3),
    }
    assert all(attributes[name] >= 0 for name in TIMES)
    assert to.headers[0]["tenant"] == "elmo"
    assert to.resources[0].items() >= {
        ("service.name", "elmo-serve"),
        ("deployment.environment.name", "test"),
    }


async def test_no_span_holds_a_text(to: Collector) -> None:
    async with in_process(environment=os.environ) as serving:
        for path in ("/embed?text=river", "/tokenize?text=river"):
            response = await serving.client.post(path, json={"text": ["river"]})
            assert response.status_code == 422
        (await serving.client.post("/embed", json={"text": ["river"]})).raise_for_status()
    for span in to.spans(3):
        assert b"river" not in span.SerializeToString()


async def test_a_fault_of_the_server_is_an_error_of_the_span(to: Collector) -> None:
    async with in_process(environment=os.environ) as serving:
        response = await serving.client.post("/embed", json={"sentences": [["!raises"]]})
    (span,) = to.spans(1)

    assert response.status_code == 500
    assert span.status.code == Status.STATUS_CODE_ERROR
    assert values(span.attributes)["error.type"] == "500"


async def test_other_routes_have_a_span_and_probes_have_none(to: Collector) -> None:
    async with in_process(environment=os.environ) as serving:
        for path in sorted(PROBES):
            await serving.client.get(path, headers={"traceparent": SAMPLED})
        await serving.client.get("/info")
        await serving.client.request("BREW", "/nowhere")
    info, nowhere = to.spans(2)

    assert (info.name, nowhere.name) == ("GET /info", "HTTP")
    assert "http.route" not in values(nowhere.attributes)
    assert values(nowhere.attributes)["http.request.method"] == "_OTHER"


@pytest.mark.parametrize("name", ["always_off", "traceidratio", "parentbased_always_on"])
async def test_a_request_that_is_not_sampled_has_no_span(
    name: str, to: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", name)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    async with in_process(environment=os.environ) as serving:
        (await embed(serving, traceparent=NOT_SAMPLED)).raise_for_status()

    assert not to.spans(0)


async def test_a_server_whose_collector_is_gone_answers_and_stops(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"http://127.0.0.1:{free_port()}/v1")
    async with in_process(environment=os.environ) as serving:
        (await embed(serving)).raise_for_status()

    assert [each for each in caplog.records if "Transient error" in each.getMessage()]


async def test_a_silent_collector_holds_up_no_request_and_no_stop(
    to: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "2")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
    to.gate.clear()
    async with in_process(environment=os.environ) as serving:
        (await embed(serving)).raise_for_status()
        to.requests(1)  # the exporter waits for its answer from now on
        for _ in range(8):
            (await embed(serving)).raise_for_status()

    # The stop was over before the exporter gave up.
    assert "elmo-traces" in {thread.name for thread in threading.enumerate()}
