"""The policy of retries, on a clock that the test turns."""

from __future__ import annotations

import email.utils
from typing import Any

import httpx
import pytest

from elmo_client.retry import FIRST_CONTACT_SECONDS, Attempts, retry_after
from tests.support.clock import FakeClock


def response(status: int, **headers: str) -> httpx.Response:
    return httpx.Response(status, headers={key.replace("_", "-"): v for key, v in headers.items()})


def pauses(outcome: Any, patience: float, *, responded: bool = True) -> list[float]:
    """Return the pauses until no further attempt is made, each of them waited."""
    clock = FakeClock()
    attempts = Attempts(patience, clock.now)
    found = []
    while (pause := attempts.pause(outcome, responded=responded)) is not None:
        found.append(pause)
        clock.advance(pause)
    return found


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_waited_for_and_at_most_a_tenth_longer(status: int) -> None:
    found = pauses(response(status, Retry_After="7"), 30)

    assert 3 <= len(found) <= 4
    assert all(7 <= pause <= 7.7 for pause in found)


def test_a_retry_after_beyond_the_patience_is_not_waited_for() -> None:
    assert pauses(response(503, Retry_After="31"), 30) == []


@pytest.mark.parametrize(
    "outcome",
    [
        response(503),
        response(503, Retry_After="0"),
        response(503, Retry_After="Sat, 01 Aug 2015 00:00:00 GMT"),
        response(503, Retry_After="soon"),
        httpx.ReadError(""),
        httpx.RemoteProtocolError(""),
        httpx.ConnectError(""),
    ],
    ids=["503", "zero", "past", "nonsense", "lost", "broken off", "refused"],
)
def test_the_back_off_doubles_up_to_five_seconds(outcome: Any) -> None:
    found = pauses(outcome, 60)

    for attempt, pause in enumerate(found):
        most = min(0.1 * 2**attempt, 5)
        assert most / 2 <= pause <= most
    assert sum(found) <= 60
    assert len(found) >= 15


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 500, 502, 504])
def test_other_statuses_are_final(status: int) -> None:
    assert pauses(response(status, Content_Type="application/problem+json"), 60) == []


@pytest.mark.parametrize("status", [500, 502])
def test_a_proxy_that_has_lost_the_server_is_asked_again(status: int) -> None:
    assert len(pauses(response(status, Content_Type="text/plain"), 60)) >= 15
    assert pauses(response(504, Content_Type="text/plain"), 60) == []


def test_a_timeout_is_final() -> None:
    assert pauses(httpx.ReadTimeout(""), 60) == []


@pytest.mark.parametrize("outcome", [httpx.ConnectError(""), httpx.ConnectTimeout("")])
def test_an_address_that_never_responded_is_given_up_after_some_seconds(outcome: Any) -> None:
    assert 0 < sum(pauses(outcome, 600, responded=False)) <= FIRST_CONTACT_SECONDS
    assert sum(pauses(outcome, 600, responded=True)) > 500
    assert sum(pauses(outcome, 0.3, responded=False)) <= 0.3
    assert sum(pauses(response(503), 600, responded=False)) > 500


def test_the_patience_begins_with_the_first_failure() -> None:
    clock = FakeClock()
    attempts = Attempts(10, clock.now)
    clock.advance(100)

    assert attempts.pause(response(503), responded=True) is not None


def test_attempts_describe_themselves() -> None:
    clock = FakeClock()
    attempts = Attempts(60, clock.now)
    assert str(attempts) == ""
    attempts.pause(response(503), responded=True)
    assert str(attempts) == ""
    clock.advance(1.26)
    attempts.pause(response(503), responded=True)
    assert str(attempts) == " (2 attempts in 1.3 s)"


def test_retry_after_is_seconds_or_a_date() -> None:
    now = 1_700_000_000.0

    assert retry_after(" 12 ", now) == 12
    assert retry_after(email.utils.formatdate(now + 90), now) == 90
    assert retry_after(email.utils.formatdate(now - 90), now) == 0
    for nonsense in ("", "-1", "soon", "1.5", "²"):
        assert retry_after(nonsense, now) is None
