"""The schedule of a run: a pure function of its seed, its length and the number of replicas."""

import random
from dataclasses import dataclass

QUIET_SECONDS = 35.0
"""Time at the end of the schedule in which no fault begins, so that the last ones are seen."""

WEIGHTS = {
    "worker killed": 3,
    "worker hangs": 1,
    "worker pauses": 2,
    "helper killed": 3,
    "helper hangs": 2,
    "replica killed": 1,
    "replica pauses": 2,
    "thread pauses": 2,
    "processor throttled": 2,
    "clock jumps": 2,
    "disk fails": 2,
    "disk is slow": 2,
    "link stalls": 2,
    "hostile clients": 2,
}
"""How often each fault is drawn, relative to the others."""

_SECONDS = (0.5, 6.0)  # how long a fault lasts


@dataclass(frozen=True, slots=True)
class Event:
    """One fault: `at` and `seconds` count from the start; `pick` chooses whatever else it needs."""

    at: float
    fault: str
    replica: int
    seconds: float
    pick: int


def draw(seed: int, seconds: float, between: float, replicas: int) -> list[Event]:
    """Return the faults of a run, `between` seconds apart on average."""
    source = random.Random(seed)
    events = []
    at = source.uniform(0.2, 1.8) * between
    while at < seconds - QUIET_SECONDS:
        fault = source.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        replica, lasts = source.randrange(replicas), source.uniform(*_SECONDS)
        events.append(Event(at, fault, replica, lasts, source.randrange(1 << 30)))
        at += source.uniform(0.2, 1.8) * between
    return events
