"""The lines of a plan; the figures are tested with the plan."""

from __future__ import annotations

from elmo_serve.capacity.measurement import parse
from elmo_serve.capacity.plan import Goal, make_plan
from elmo_serve.capacity.report import lines
from tests.support.measurements import measurement


def test_without_a_price_the_cost_is_a_factor() -> None:
    plan = make_plan(parse(measurement()), Goal(1_000.0, 1.0, replicas=1, requests=200))
    (cost,) = (line for line in lines(plan) if line.startswith("cost"))

    assert cost.endswith("x the price of a replica for an hour, for a million tokens")
