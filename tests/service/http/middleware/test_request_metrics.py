"""Requests are counted and timed by method, route and status, in a bounded number of series."""

from elmo_serve.http.middleware.context import UNKNOWN, count, count_unparsed
from elmo_serve.metrics import Metrics


def counted(metrics: Metrics) -> dict[tuple[str, str, str], float]:
    """Return the number of requests by method, route and status."""
    return {
        (s.labels["method"], s.labels["route"], s.labels["status"]): s.value
        for family in metrics.http_requests.collect()
        for s in family.samples
        if s.name.endswith("_total")
    }


def test_clients_cannot_add_series() -> None:
    metrics = Metrics()

    for number in range(50):
        count(metrics, f"METHOD{number}", "/embed", 405, 0)
        count(metrics, f"METHOD{number}", UNKNOWN, 404, 0)
        count_unparsed(metrics, 400)

    assert counted(metrics) == {
        ("other", "/embed", "405"): 50,
        ("any", UNKNOWN, "404"): 50,
        ("any", UNKNOWN, "400"): 50,
    }
