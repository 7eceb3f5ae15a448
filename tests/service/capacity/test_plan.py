"""A plan of the replicas, the network, the disk and the cost of a load."""

from __future__ import annotations

import json

import pytest

from elmo_serve.capacity.measurement import parse
from elmo_serve.capacity.plan import Goal, PlanError, make_plan
from elmo_serve.capacity.report import lines
from tests.support.measurements import measurement

MEASURED = parse(measurement(fixed=0.02, per_token=1e-4, latency=0.0324))


def test_a_plan_has_the_replicas_and_what_they_take() -> None:
    plan = make_plan(MEASURED, Goal(9_000.0, 0.3, peak=2.0, requests=1_000))

    # A full batch has 240 tokens with boundaries, 200 without, and takes 44 ms.
    assert plan.replica_tokens_per_second == pytest.approx(200 / 0.044)
    assert plan.tokens_per_day == 4_500 * 86_400
    found = json.loads(json.dumps(plan.as_json()))
    assert found["replicas"] >= 2
    assert found["latency_ms"]["p99"] <= 300
    assert found["network_bytes_per_second"] == {"in": 72_000.0, "out": 900_000.0}
    assert found["requests_per_second"] == 450
    hours = found["replicas"] * 24 / (4_500 * 86_400 / 1e6)
    assert found["replica_hours_per_million_tokens"] == pytest.approx(hours)
    assert found["overhead_seconds"] == pytest.approx(0.01)


def test_a_given_number_of_replicas_is_simulated() -> None:
    plan = make_plan(MEASURED, Goal(9_000.0, 0.001, replicas=5, requests=1_000))

    assert plan.tried.replicas == 5
    assert plan.tried.found.sent == 900


def test_a_p99_that_no_number_has_is_an_error() -> None:
    with pytest.raises(
        PlanError, match="no number of replicas has a p99 of 10 ms, for idle ones take longer"
    ):
        make_plan(MEASURED, Goal(200.0, 0.01, requests=500))


def test_the_text_has_every_figure() -> None:
    plan = make_plan(MEASURED, Goal(9_000.0, 0.3, replicas=3, requests=1_000))
    text = "\n".join(lines(plan, price=0.5, cores=2))

    assert "load          9,000 tokens/s at the peak, 7.78e+08 tokens a day" in text
    assert "requests      450.0/s of 20 tokens in 2.0 sentences" in text
    assert "a batch       20.00 ms and 100.0 µs a token" in text
    assert "a replica     4,545 tokens/s with full batches, 2,273 a core" in text
    assert "replicas      3, which use 66% of that at the peak; workers are busy " in text
    assert "network       0.07 MB/s in, 0.9 MB/s out" in text
    assert (
        "0.0926 x the price of a replica for an hour, for a million tokens: 0.0463 at 0.5" in text
    )
    assert "bytes a token             json         x-npz   safetensors         arrow" in text
