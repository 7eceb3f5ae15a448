"""The search for the rate at which a server saturates, on servers of known capacity."""

from __future__ import annotations

import asyncio

import pytest

from elmo_serve.load_test.saturation import Saturation, find_saturation, follows
from elmo_serve.load_test.tally import Tally


def search(capacity: float, start: float) -> tuple[Saturation, list[float]]:
    """Search on a server that answers `capacity` requests/s at most."""
    asked: list[float] = []

    async def measure(rate: float) -> Tally:
        asked.append(rate)
        sent = 100_000
        return Tally("", 0.0, 1.0, rate, sent=sent, done=round(sent * min(1, capacity / rate)))

    return asyncio.run(find_saturation(measure, start)), asked


@pytest.mark.parametrize("capacity", [3.0, 100.0, 4_321.0])
@pytest.mark.parametrize("start", [1.0, 90.0])
def test_the_two_rates_enclose_the_limit(capacity: float, start: float) -> None:
    found, asked = search(capacity, start)

    assert found.followed is not None and found.followed.rate is not None
    assert found.beyond is not None and found.beyond.rate is not None
    assert found.followed.rate <= capacity / 0.95 < found.beyond.rate * 1.000001
    assert found.beyond.rate <= found.followed.rate * 1.06
    assert len(asked) < 25


def test_a_server_without_a_limit_is_not_searched_for_ever() -> None:
    found, asked = search(1e12, 1.0)

    assert found.beyond is None and found.followed is not None
    assert len(asked) < 25


def test_a_server_that_answers_nothing_has_no_rate() -> None:
    found, asked = search(0.0, 1.0)

    assert found.followed is None and found.beyond is not None
    assert len(asked) < 25


def test_a_phase_without_requests_is_not_followed() -> None:
    assert not follows(Tally("", 0.0, 1.0))
    assert follows(Tally("", 0.0, 1.0, sent=100, done=95))
    assert not follows(Tally("", 0.0, 1.0, sent=100, done=94))
