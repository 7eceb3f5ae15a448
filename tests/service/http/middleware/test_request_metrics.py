"""Requests are counted and timed by method, route and status, in a bounded number of series."""

from elmo_serve.http.middleware.context import UNKNOWN, RequestMetrics
from elmo_serve.metrics import Metrics


def counted(metrics: Metrics) -> dict[tuple[str, str, str], float]:
    """Return the number of requests by method, route and status."""
    return {
        (s.labels["method"], s.labels["route"], s.labels["status"]): s.value
        for family in metrics.http_requests.collect()
        for s in family.samples
        if s.name.endswith("_total")
    }


def test_a_request_counts_once_and_its_time_under_its_route() -> None:
    metrics = Metrics()
    requests = RequestMetrics(metrics)

    requests.count("POST", "/embed", 200, 0.25)
    requests.count("POST", "/embed", 200, 0.5)
    requests.count("GET", "/info", 401, 1.0)

    assert counted(metrics) == {("POST", "/embed", "200"): 2, ("GET", "/info", "401"): 1}
    sums = {
        sample.labels["route"]: sample.value
        for family in metrics.http_request_duration.collect()
        for sample in family.samples
        if sample.name.endswith("_sum")
    }
    assert sums == {"/embed": 0.75, "/info": 1.0}


def test_clients_cannot_add_series() -> None:
    metrics = Metrics()
    requests = RequestMetrics(metrics)

    for number in range(50):
        requests.count(f"METHOD{number}", "/embed", 405, 0)
        requests.count(f"METHOD{number}", UNKNOWN, 404, 0)
        requests.count_unparsed(400)

    assert counted(metrics) == {
        ("other", "/embed", "405"): 50,
        ("any", UNKNOWN, "404"): 50,
        ("any", UNKNOWN, "400"): 50,
    }
