"""Metrics are declared once, under one prefix, and show zero before anything has happened."""

from prometheus_client import generate_latest

from elmo_serve.metrics import Metrics


def lines(metrics: Metrics) -> list[str]:
    """Return the exposition as Prometheus reads it."""
    return generate_latest(metrics.registry).decode().splitlines()


def test_two_servers_of_one_process_share_no_metric() -> None:
    one, two = Metrics(), Metrics()
    one.failures.labels("memory").inc(3)

    assert 'elmo_failures_total{reason="memory"} 3.0' in lines(one)
    assert 'elmo_failures_total{reason="memory"} 0.0' in lines(two)


def test_failures_are_shown_before_the_first() -> None:
    """An alert on an increase would miss a series that begins with its first failure."""
    metrics = Metrics()
    metrics.of("english")
    text = lines(metrics)

    assert 'elmo_failures_total{reason="worker_lost"} 0.0' in text
    assert 'elmo_cancelled_sentences_total{model="english",stage="queued"} 0.0' in text


def test_bounds_of_histograms_are_written_as_before() -> None:
    """Dashboards and recorded series are keyed by the text of a bound."""
    metrics = Metrics()
    metrics.of("pt")
    text = "\n".join(lines(metrics))

    for bound in ("16.0", "65536.0"):
        assert f'elmo_batch_tokens_bucket{{le="{bound}",model="pt"}}' in text
    for bound in ("0.001", "0.0025", "60.0", "1800.0"):
        assert f'elmo_queue_wait_seconds_bucket{{le="{bound}",model="pt"}}' in text
