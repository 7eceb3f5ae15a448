"""Whether traces are on, by the standard variables of OpenTelemetry."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from elmo_serve.metrics import Metrics

if TYPE_CHECKING:  # an extra, which takes 0.2 s to import
    from elmo_serve.tracing.tracer import Tracer

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL: Final = "http/protobuf"

_log = logging.getLogger("elmo_serve")


def start_tracer(environment: Mapping[str, str], metrics: Metrics) -> Tracer | None:
    """Return what makes and sends traces; None where `environment` names no endpoint for them.

    The variables stand for every program of a machine, so what they cannot mean here leaves traces
    off with one line in the log. It does not stop the server.
    """
    endpoint = next((name for name in _ENDPOINTS if environment.get(name)), None)
    if endpoint is None or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if environment.get("OTEL_TRACES_EXPORTER", "otlp").lower() == "none":
        return None
    protocol = next((name for name in _PROTOCOLS if environment.get(name)), None)
    if protocol is not None and environment[protocol] != _PROTOCOL:
        _log.warning(
            "traces are off: %s=%r is not sent by this server; it sends %s",
            protocol,
            environment[protocol],
            _PROTOCOL,
        )
        return None
    try:
        from elmo_serve.tracing.tracer import Tracer  # noqa: PLC0415 - an extra
    except ImportError as error:
        _log.warning(
            "traces are off: %s is set and %s is not installed; pip install 'elmo-serve[traces]'",
            endpoint,
            error.name,
        )
        return None
    try:
        return Tracer(environment, metrics.spans_dropped)
    except ValueError as error:
        _log.warning("traces are off: %s", error)
        return None
