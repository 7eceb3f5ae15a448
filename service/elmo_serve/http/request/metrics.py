"""The one place where HTTP requests are counted and timed."""

from typing import Final

from prometheus_client import Counter, Histogram

from elmo_serve.metrics import Metrics

UNKNOWN: Final = "unknown"
"""Route of requests that match none."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
"""Methods that are labels; all others share one, so that clients cannot add series."""


class RequestMetrics:
    """`elmo_http_requests_total` and `elmo_http_request_duration_seconds` of one server."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request; `route` is the path of a route, or `UNKNOWN`."""
        counter, histogram = self._labelled(method, route, status)
        counter.inc()
        histogram.observe(seconds)

    def count_unparsed(self, status: int) -> None:
        """Count a request that ended before its head was parsed."""
        self._metrics.http_requests.labels("any", UNKNOWN, str(status)).inc()

    def _labelled(self, method: str, route: str, status: int) -> tuple[Counter, Histogram]:
        """Return the metrics with their labels; looking labels up takes a lock each time."""
        if route == UNKNOWN:
            method = "any"
        elif method not in _METHODS:
            method = "other"
        known = self._known.get((method, route, status))
        if known is None:
            known = self._known[method, route, status] = (
                self._metrics.http_requests.labels(method, route, str(status)),
                self._metrics.http_request_duration.labels(route),
            )
        return known
