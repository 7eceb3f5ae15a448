"""Traces of requests by OpenTelemetry, an extra that is loaded only where it is on."""
