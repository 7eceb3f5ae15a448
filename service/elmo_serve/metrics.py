"""All metrics of a server, each declared once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from elmo_serve import logs

_SECONDS = (
    *(1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    *(30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0),  # a request may be given a day
)
_TOKENS = tuple(4.0**power for power in range(2, 9))  # 16 to 65,536

_PROCESSES = ("worker", "helper")
_FAILURES = (
    *("sentence", "not_finite", "memory", "deadline", "api_keys"),
    *(f"{process}_{end}" for process in _PROCESSES for end in ("lost", "hung")),
)


class Metrics:
    """The metrics of one server, in a registry of their own.

    Metrics of a model have the label `model`; `of` returns them for one model.
    """

    def __init__(self) -> None:
        # They would double the text, and no rule uses them.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._counter = partial(Counter, registry=self.registry)
        self._gauge = partial(Gauge, registry=self.registry)
        self._histogram = partial(Histogram, registry=self.registry)
        ProcessCollector(namespace="elmo", registry=self.registry)
        self.model = Info(
            "elmo_model", "The models that are served.", ["model"], registry=self.registry
        )
        self._declare_http()
        self._declare_batches()
        self._declare_failures()
        self._declare_workers()
        self._declare_watched()
        self.registry.register(_LogLines())

    def of(self, model: str) -> ModelMetrics:
        """Return the metrics of one model, with zeros before anything has happened."""
        return ModelMetrics(self, model)

    def _declare_http(self) -> None:
        self.http_requests = self._counter(
            "elmo_http_requests_total", "HTTP requests answered.", ["method", "route", "status"]
        )
        self.http_request_duration = self._histogram(
            "elmo_http_request_duration_seconds",
            "Time from the first byte of a request to the last byte of its answer.",
            ["route"],
            buckets=_SECONDS,
        )
        self.tokens = self._counter("elmo_tokens_total", "Tokens answered.", ["model"])

    def _declare_batches(self) -> None:
        self.queue_wait = self._histogram(
            "elmo_queue_wait_seconds",
            "Time that a request waited for its first batch.",
            ["model"],
            buckets=_SECONDS,
        )
        self.batch_tokens = self._histogram(
            "elmo_batch_tokens",
            "Tokens in a batch, boundaries included.",
            ["model"],
            buckets=_TOKENS,
        )
        self.batch_duration = self._histogram(
            "elmo_batch_duration_seconds",
            "Time that a worker took for a batch.",
            ["model", "device"],
            buckets=_SECONDS,
        )
        self.token_cache_hits = self._counter(
            "elmo_token_cache_hits_total", "Distinct words found in the cache.", ["model"]
        )
        self.token_cache_misses = self._counter(
            "elmo_token_cache_misses_total",
            "Distinct words that went through the char CNN.",
            ["model"],
        )

    def _declare_failures(self) -> None:
        self.failures = self._counter(
            "elmo_failures_total", "Things that went wrong inside.", ["reason"]
        )
        for reason in _FAILURES:
            self.failures.labels(reason)
        self.cancelled_sentences = self._counter(
            "elmo_cancelled_sentences_total",
            "Sentences without an answer, by where they were when their client left or ran out of "
            "time; `lost` for those of a lost worker.",
            ["model", "stage"],
        )

    def _declare_workers(self) -> None:
        self.worker_up = self._gauge(
            "elmo_worker_up", "Workers that can answer.", ["model", "device"]
        )
        self.batch_budget = self._gauge(
            "elmo_batch_budget_tokens",
            "Largest batch in padded tokens: less than the setting after memory ran out.",
            ["model", "device"],
        )
        self.worker_restarts = self._counter(
            "elmo_worker_restarts_total", "Workers replaced.", ["model", "device"]
        )

    def _declare_watched(self) -> None:
        self.queue_sentences = self._gauge(
            "elmo_queue_sentences", "Sentences that wait for a worker.", ["model"]
        )
        self.queue_tokens = self._gauge(
            "elmo_queue_tokens", "Their tokens, boundaries included.", ["model"]
        )
        self.answer_bytes = self._gauge(
            "elmo_answer_bytes", "Bytes of answers admitted and not yet sent."
        )
        self.receiving_bytes = self._gauge(
            "elmo_receiving_bytes", "Bytes of large request bodies that are not computed yet."
        )
        self.shared_memory_bytes = self._gauge(
            "elmo_shared_memory_bytes",
            "Bytes of shared memory: large bodies, results and pages kept for reuse.",
        )


class ModelMetrics:
    """The metrics of one model: looking up a label takes a lock, so it is done once."""

    def __init__(self, metrics: Metrics, model: str) -> None:
        self.tokens = metrics.tokens.labels(model)
        self.queue_wait = metrics.queue_wait.labels(model)
        self.batch_tokens = metrics.batch_tokens.labels(model)
        self.token_cache_hits = metrics.token_cache_hits.labels(model)
        self.token_cache_misses = metrics.token_cache_misses.labels(model)
        self.cancelled_queued = metrics.cancelled_sentences.labels(model, "queued")
        self.cancelled_running = metrics.cancelled_sentences.labels(model, "running")
        self.cancelled_lost = metrics.cancelled_sentences.labels(model, "lost")


class _LogLines(Collector):
    def collect(self) -> Iterator[Metric]:
        meaning = "Log lines of the front process that nobody read in time."
        yield CounterMetricFamily("elmo_log_lines_dropped", meaning, logs.lines_dropped())
