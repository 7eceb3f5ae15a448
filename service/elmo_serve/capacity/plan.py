"""A plan: the replicas, the network, the disk and the cost of a load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from elmo_serve.capacity import volume
from elmo_serve.capacity.measurement import Measurement
from elmo_serve.capacity.replicas import Tried, replicas_for, try_replicas
from elmo_serve.capacity.simulation import Replica, Traffic

DAY_SECONDS = 86_400


class PlanError(Exception):
    """No number of replicas is enough. The text has the reason."""


@dataclass(frozen=True, slots=True)
class Goal:
    """The load in tokens/s at its peak, and the longest p99 in seconds.

    With `replicas`, that number is simulated and none is searched. `peak` is the ratio of the peak
    to the mean load. `requests` is the length of a simulation.
    """

    tokens_per_second: float
    p99_seconds: float
    peak: float = 1.0
    replicas: int | None = None
    timeout: float = 60.0
    requests: int = 10_000


@dataclass(frozen=True, slots=True)
class Plan:
    """The replicas that are enough for a goal, and what they take."""

    measured: Measurement
    goal: Goal
    tried: Tried

    @property
    def replica_tokens_per_second(self) -> float:
        """The tokens/s of a replica with full batches, boundaries not counted."""
        cost = self.measured.mean_cost / self.measured.mean_tokens
        rate = self.measured.batch_time.tokens_per_second(self.measured.batch_tokens)
        return self.measured.workers * rate / cost

    @property
    def used(self) -> float:
        """The load at its peak as a share of the tokens/s of all replicas with full batches."""
        return self.goal.tokens_per_second / (self.tried.replicas * self.replica_tokens_per_second)

    @property
    def tokens_per_day(self) -> float:
        """The tokens of a day, at the mean load."""
        return self.goal.tokens_per_second / self.goal.peak * DAY_SECONDS

    @property
    def replica_hours_per_million_tokens(self) -> float:
        """The factor of the cost: times the price of an hour of a replica, a million tokens cost.

        All replicas are paid for all day, also below the peak.
        """
        return self.tried.replicas * 24 * 1e6 / self.tokens_per_day

    def as_json(self) -> dict[str, Any]:
        """Return the plan as members of JSON. Rates are tokens/s and bytes/s at the peak."""
        found, rate = self.tried.found, self.goal.tokens_per_second
        return {
            "tokens_per_second": rate,
            "requests_per_second": rate / self.measured.mean_tokens,
            "tokens_per_day": self.tokens_per_day,
            "replicas": self.tried.replicas,
            "replica_tokens_per_second": self.replica_tokens_per_second,
            "batch_seconds": {
                "fixed": self.measured.batch_time.fixed,
                "per_token": self.measured.batch_time.per_token,
            },
            "overhead_seconds": self.measured.overhead,
            "used_share": self.used,
            "busy_share": found.busy,
            "latency_ms": found.latencies.milliseconds(),
            "refused_share": found.refused / max(found.sent, 1),
            "late_share": found.late / max(found.sent, 1),
            "network_bytes_per_second": {
                "in": rate * self.measured.bytes_in,
                "out": rate * self.measured.bytes_out,
            },
            "bytes_per_day": self.tokens_per_day * self.measured.bytes_out,
            "replica_hours_per_million_tokens": self.replica_hours_per_million_tokens,
            "bytes_per_token": self.bytes_per_token(),
        }

    def bytes_per_token(self) -> dict[str, dict[str, float]]:
        """Return the bytes a token by selection and media type, for requests as measured."""
        sizes = [len(request) for request in self.measured.lengths]
        longest = max(range(len(sizes)), key=lambda number: sizes[number])
        return volume.table(
            self.measured.layers, self.measured.dimension, self.measured.lengths[longest]
        )


def make_plan(
    measured: Measurement, goal: Goal, on_try: Callable[[Tried], None] = lambda _: None
) -> Plan:
    """Return a plan for a goal. Raises PlanError."""
    replica = Replica(
        measured.batch_time,
        measured.batch_tokens,
        measured.workers,
        measured.queue_tokens,
        measured.overhead,
    )
    rate = goal.tokens_per_second / measured.mean_tokens
    traffic = Traffic(rate, measured.draw, goal.timeout)
    if goal.replicas is not None:
        return Plan(measured, goal, try_replicas(replica, goal.replicas, traffic, goal.requests))
    tried = replicas_for(
        replica, traffic, measured.mean_cost, goal.p99_seconds, goal.requests, on_try
    )
    if tried is None:
        raise PlanError(
            f"no number of replicas has a p99 of {1e3 * goal.p99_seconds:,.0f} ms, for idle ones "
            "take longer: send smaller requests, or use faster workers"
        )
    return Plan(measured, goal, tried)
