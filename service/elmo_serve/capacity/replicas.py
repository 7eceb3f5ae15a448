"""How many replicas a load needs, so that a share of its requests is answered in a given time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from elmo_serve.capacity.simulation import Replica, Simulated, Traffic, simulate

SIMULATED = 8
"""Most replicas that are simulated. More of them share their load in groups of so many: a larger
group evens the load better, so the number of replicas is on the safe side, and takes longer."""

_MOST_NOT_ANSWERED = 0.001  # share of the requests that may be refused or late
_GROWTH = 1.05  # ratio of two numbers of replicas that are tried one after another
_IDLE_LOAD = 0.01  # of a replica, for the latencies that no number of replicas shortens
_IDLE_REQUESTS = 1_000


@dataclass(frozen=True, slots=True)
class Tried:
    """A number of replicas and the simulation of a group of them."""

    replicas: int
    found: Simulated

    def is_enough(self, p99_seconds: float) -> bool:
        """Tell whether nearly all requests are answered, and their p99 is short enough."""
        missing = self.found.sent - self.found.answered
        return (
            missing <= _MOST_NOT_ANSWERED * self.found.sent
            and self.found.latencies.percentile(99) <= p99_seconds
        )


def try_replicas(
    replica: Replica, count: int, traffic: Traffic, requests: int, seed: int = 1
) -> Tried:
    """Simulate `count` replicas, or a group of `SIMULATED` of them with its share of the load."""
    group = min(count, SIMULATED)
    share = replace(traffic, rate=traffic.rate * group / count)
    return Tried(count, simulate(replica, group, share, requests, seed))


def replicas_for(
    replica: Replica,
    traffic: Traffic,
    mean_cost: float,
    p99_seconds: float,
    requests: int = 10_000,
    on_try: Callable[[Tried], None] = lambda _: None,
) -> Tried | None:
    """Return the least number of replicas that is enough; None where no number is.

    `mean_cost` are the tokens of a request, boundaries included. The numbers ascend from the least
    that could compute the load, by one or by 5 %.
    """
    per_second = replica.workers * replica.batch_time.tokens_per_second(replica.batch_tokens)
    alone = 1 / replica.batch_time.seconds(math.ceil(mean_cost))
    idle = replace(traffic, rate=min(traffic.rate, _IDLE_LOAD * alone))
    if not try_replicas(replica, 1, idle, min(requests, _IDLE_REQUESTS)).is_enough(p99_seconds):
        return None
    count = max(1, math.ceil(traffic.rate * mean_cost / per_second))
    while True:
        tried = try_replicas(replica, count, traffic, requests)
        on_try(tried)
        if tried.is_enough(p99_seconds):
            return tried
        count = max(count + 1, math.floor(count * _GROWTH))
