"""Traces of requests by OpenTelemetry: an extra, loaded where its standard variables ask for it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # an extra, which takes 0.2 s to import
    from elmo_serve.tracing.tracer import Tracer

_PROTOCOL: Final = "http/protobuf"

_log = logging.getLogger("elmo_serve")


def start_tracer(environment: Mapping[str, str]) -> Tracer | None:
    """Return the tracer; None where `environment` names no endpoint for them.

    The variables are meant for every program of a machine, and the SDK reads them again. What
    cannot be done here turns traces off with one line in the log, and does not stop the server.
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
        from elmo_serve.tracing.tracer import Tracer  # noqa: PLC0415 - an extra

        return Tracer()
    except ImportError as error:
        _log.warning(
            "traces are off: %s is not installed; pip install 'elmo-serve[traces]'", error.name
        )
    except ValueError as error:
        _log.warning("traces are off: %s", error)
    return None
