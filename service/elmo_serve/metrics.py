"""Every metric, declared once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

_SECONDS = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_TOKENS = (16, 64, 256, 1024, 4096, 16384, 65536)
_RATIOS = (0.0, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75)


class Metrics:
    """The metrics of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._readings: list[_Reading] = []
        ProcessCollector(namespace="elmo", registry=registry)
        self.model = Info("elmo_model", "The model that is served.", registry=registry)
        self.http_requests = Counter(
            "elmo_http_requests_total",
            "HTTP requests answered.",
            ["method", "route", "status"],
            registry=registry,
        )
        self.http_request_duration = Histogram(
            "elmo_http_request_duration_seconds",
            "Time from the first byte of a request to the last byte of its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.sentences = Counter("elmo_sentences_total", "Sentences answered.", registry=registry)
        self.tokens = Counter("elmo_tokens_total", "Tokens answered.", registry=registry)
        self.queue_wait = Histogram(
            "elmo_queue_wait_seconds",
            "Time that a sentence waited for its batch.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.batch_sentences = Histogram(
            "elmo_batch_sentences", "Sentences in a batch.", buckets=_SIZES, registry=registry
        )
        self.batch_tokens = Histogram(
            "elmo_batch_tokens",
            "Tokens in a batch, boundaries included.",
            buckets=_TOKENS,
            registry=registry,
        )
        self.batch_padding = Histogram(
            "elmo_batch_padding_ratio",
            "Share of a batch's padded size that is padding.",
            buckets=_RATIOS,
            registry=registry,
        )
        self.batch_duration = Histogram(
            "elmo_batch_duration_seconds",
            "Time that a worker took for a batch.",
            ["device"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.token_cache_hits = Counter(
            "elmo_token_cache_hits_total", "Distinct words found in the cache.", registry=registry
        )
        self.token_cache_misses = Counter(
            "elmo_token_cache_misses_total",
            "Distinct words that went through the char CNN.",
            registry=registry,
        )
        self.failures = Counter(
            "elmo_failures_total", "Things that went wrong inside.", ["reason"], registry=registry
        )
        for reason in (
            "sentence",
            "not_finite",
            "memory",
            "worker_lost",
            "worker_hung",
            "json_lost",
            "json_hung",
            "deadline",
        ):
            self.failures.labels(reason)
        self.cancelled_sentences = Counter(
            "elmo_cancelled_sentences_total",
            "Sentences whose client left or ran out of time, by where they were then.",
            ["stage"],
            registry=registry,
        )
        for stage in ("queued", "running"):
            self.cancelled_sentences.labels(stage)
        self.worker_up = Gauge(
            "elmo_worker_up", "Workers that can answer.", ["device"], registry=registry
        )
        self.batch_budget = Gauge(
            "elmo_batch_budget_tokens",
            "Largest batch in padded tokens: less than the setting after memory ran out.",
            ["device"],
            registry=registry,
        )
        self.worker_restarts = Counter(
            "elmo_worker_restarts_total", "Workers replaced.", ["device"], registry=registry
        )

    def snapshot(self) -> Collector:
        """Read the gauges that belong to the event loop; the rest is read by whoever collects."""
        return _Snapshot(self.registry, [reading.read() for reading in self._readings])

    def watch(self, name: str, meaning: str, value: Callable[[], float]) -> None:
        """Add a gauge that is read when it is asked for."""
        self._readings.append(_Reading(f"elmo_{name}", meaning, value))


@dataclass(frozen=True, slots=True)
class _Reading:
    name: str
    meaning: str
    value: Callable[[], float]

    def read(self) -> Metric:
        return GaugeMetricFamily(self.name, self.meaning, self.value())


class _Snapshot(Collector):
    def __init__(self, registry: CollectorRegistry, readings: list[Metric]) -> None:
        self._registry = registry
        self._readings = readings

    def collect(self) -> Iterator[Metric]:
        yield from self._readings
        for family in self._registry.collect():
            # The times of creation double the text and say nothing.
            family.samples = [s for s in family.samples if not s.name.endswith("_created")]
            yield family
