"""When traces are on."""

from __future__ import annotations

import subprocess
import sys

import pytest

from elmo_serve.http.state import start_tracer

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


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
    assert start_tracer(environment) is None
    assert not caplog.records


@pytest.mark.parametrize("name", [*ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
def test_traces_are_on_where_an_endpoint_is_named(name: str) -> None:
    environment = {name: "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
    tracer = start_tracer(environment)

    assert tracer is not None
    tracer.close()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "traces are off: OTEL_EXPORTER_OTLP_PROTOCOL='grpc'; it can be http/protobuf",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"},
            "traces are off: OTEL_EXPORTER_OTLP_ENDPOINT='collector:4318'; "
            "expected http://HOST:4318",
        ),
        (
            {"OTEL_BSP_MAX_QUEUE_SIZE": "-1"},
            "traces are off: max_queue_size must be a positive integer.",
        ),
    ],
)
def test_what_cannot_be_done_is_one_line(
    more: dict[str, str],
    message: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in more.items():  # the SDK reads some by itself
        monkeypatch.setenv(name, value)

    assert start_tracer({**ENDPOINT, **more}) is None
    assert [each.getMessage() for each in caplog.records] == [message]


def test_a_missing_extra_is_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delitem(sys.modules, "elmo_serve.tracing.tracer", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)

    assert start_tracer(ENDPOINT) is None
    assert [each.getMessage() for each in caplog.records] == [
        "traces are off: opentelemetry.sdk.resources is not installed; pip install "
        "'elmo-serve[traces]'"
    ]


def test_without_an_endpoint_nothing_of_the_extra_is_imported() -> None:
    script = (
        "import sys\n"
        "from elmo_serve.http.app import create_app\n"
        "from elmo_serve.http.state import assemble\n"
        "from elmo_serve.settings import Settings\n"
        "create_app(assemble(Settings(), environment={}))\n"
        "extra = ('opentelemetry.sdk', 'opentelemetry.exporter', 'elmo_serve.tracing.tracer')\n"
        "print([name for name in sys.modules if name.startswith(extra)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
