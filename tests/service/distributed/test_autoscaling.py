"""The policy: one replica for so many tokens that wait or run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from elmo_serve.distributed.autoscaling import OUTSTANDING_TOKENS, QueuedTokens


@dataclass
class Known:
    """What Ray Serve knows of the replicas."""

    aggregated_metrics: Mapping[str, Mapping[Any, float]] | None
    target_num_replicas: int = 2


@pytest.mark.parametrize(
    ("tokens", "wanted"),
    [((0.0,), 1), ((1_000.0,), 1), ((1_001.0,), 2), ((900.0, 900.0, 900.0), 3), ((0.0, 0.0), 1)],
)
def test_the_tokens_of_all_replicas_decide(tokens: tuple[float, ...], wanted: int) -> None:
    known = Known({OUTSTANDING_TOKENS: dict(enumerate(tokens))})

    assert QueuedTokens(1_000)(known) == (wanted, {})


@pytest.mark.parametrize("metrics", [None, {}, {OUTSTANDING_TOKENS: {}}, {"other": {1: 9e9}}])
def test_the_number_stays_until_a_replica_reports(metrics: Any) -> None:
    assert QueuedTokens(1_000)(Known(metrics, target_num_replicas=2)) == (2, {})
