"""Traces: FastAPI makes a span of each request, OpenTelemetry's SDK sends it to a collector."""

import importlib.metadata
import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # an extra, which takes 0.2 s to import
    from opentelemetry.sdk.trace import TracerProvider

_PROTOCOL: Final = "http/protobuf"

_CLOSE_SECONDS: Final = 2.0
"""Seconds that a stop waits for the last spans, where the collector does not answer."""

_log = logging.getLogger("elmo_serve")


def tracer_provider(environment: Mapping[str, str]) -> "TracerProvider | None":
    """Return the provider that exports spans; None where `environment` names no OTLP endpoint.

    The variables are meant for every program of a machine, and the SDK reads them again. An
    unusable variable or a missing extra turns traces off with one line in the log, and does not
    stop the server.
    """
    names = ("OTEL_EXPORTER_OTLP_TRACES_{}", "OTEL_EXPORTER_OTLP_{}")
    endpoint, protocol = (
        next(filter(None, (environment.get(name.format(end)) for name in names)), None)
        for end in ("ENDPOINT", "PROTOCOL")
    )
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if endpoint is None or is_disabled or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    try:
        if not endpoint.lower().startswith(("http://", "https://")):
            raise ValueError(f"OTEL_EXPORTER_OTLP_ENDPOINT={endpoint!r}; expected http://HOST:4318")
        if protocol not in (None, _PROTOCOL):
            raise ValueError(f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol!r}; it can be {_PROTOCOL}")
        return _provider()
    except ImportError as error:
        _log.warning(
            "traces are off: %s is not installed; pip install 'elmo-serve[traces]'", error.name
        )
    except ValueError as error:
        _log.warning("traces are off: %s", error)
    return None


def _provider() -> "TracerProvider":
    """Return a provider with our name and version, unless OTEL_* variables name others.

    Raises:
        ImportError: the extra is not installed.
        ValueError: a variable is not allowed.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - an extra
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import (  # noqa: PLC0415 - an extra
        OTELResourceDetector,
        Resource,
    )
    from opentelemetry.sdk.trace import TracerProvider, export  # noqa: PLC0415 - an extra

    version = importlib.metadata.version("elmo-serve")
    own = Resource.create({"service.name": "elmo-serve", "service.version": version})
    resource = own.merge(OTELResourceDetector().detect())
    # Its own handler at exit would wait for up to 30 s.
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(export.BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def close(provider: "TracerProvider") -> None:
    """Send the spans that wait, for `_CLOSE_SECONDS` at most."""
    closing = threading.Thread(target=provider.shutdown, name="elmo-traces", daemon=True)
    closing.start()
    closing.join(_CLOSE_SECONDS)
