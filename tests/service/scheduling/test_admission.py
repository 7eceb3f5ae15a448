"""Admission refuses early and honestly, and counts every token and byte once."""

import contextlib
from dataclasses import dataclass
from typing import Any, Self, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_serve.errors import ClientOverShare, Overloaded, TooLarge
from elmo_serve.scheduling.admission import Admission, Limits
from elmo_serve.scheduling.dispatcher import Dispatcher


@dataclass
class FakeBacklog:
    """Some queued tokens, all of them due before a new request, at a known rate."""

    before: float = 0.0
    seconds_per_token: float = 1e-3
    interactive: float = 0.0
    is_measured: bool = True
    interactive_size: int = 0
    best: float | None = None

    @property
    def best_seconds_per_token(self) -> float:
        return self.seconds_per_token if self.best is None else self.best

    @property
    def throughput(self) -> Self:
        return self

    @property
    def pool(self) -> Self:
        return self

    def tokens_before(self, virtual_time: float) -> float:
        return self.before if virtual_time > 0 else 0.0

    def interactive_tokens_before(self, virtual_time: float) -> float:
        return self.interactive if virtual_time > 0 else 0.0


def admission_to(limits: Limits, **backlogs: FakeBacklog) -> Admission:
    return Admission(limits, cast(dict[str, Dispatcher], backlogs), lambda: 0.0)


def admission_of(
    backlog: FakeBacklog | None = None,
    *,
    queue_tokens: int = 1_000,
    answer_bytes: int = 1_000,
    client_tokens: int | None = None,
) -> Admission:
    limits = Limits(queue_tokens, answer_bytes, client_tokens)
    return admission_to(limits, default=backlog or FakeBacklog())


def test_a_request_that_never_has_room_is_too_large_and_not_refused_for_now() -> None:
    admission = admission_of()

    assert admission.refusal(1_001, 60.0) is None
    with pytest.raises(TooLarge, match="ELMO_MAX_QUEUE_TOKENS"):
        admission.admit(1_010, 60.0)


def test_an_interactive_request_is_not_refused_for_the_bulk_that_it_overtakes() -> None:
    """Interactive requests are given half of the workers, so 100 tokens of others take 0.2 s."""
    backlog = FakeBacklog(before=900, interactive=100, interactive_size=100)
    admission = admission_of(backlog)
    assert not admission.admit(100, 0.8).is_bulk
    with pytest.raises(Overloaded, match=r"about 0\.2 s long"):
        admission.admit(100, 0.5)
    for cost, is_bulk in ((110, False), (100, True)):
        assert admission.refusal(cost, 1.0, is_bulk=is_bulk) is not None
    backlog.interactive = 0

    assert admission.refusal(100, 0.5) is None


def test_a_request_that_is_larger_than_a_batch_or_said_to_be_is_bulk() -> None:
    admission = admission_of(FakeBacklog(interactive_size=100))

    assert [admission.admit(cost, 60.0).is_bulk for cost in (100, 101)] == [False, True]
    assert admission.admit(100, 60.0, is_bulk=True).is_bulk


def test_a_request_that_takes_longer_than_its_timeout_by_itself_is_too_large() -> None:
    """Clients send a 504 again, and this request would never be in time."""
    with pytest.raises(TooLarge, match=r"0\.6 s .* 0\.5 s .*ELMO_REQUEST_TIMEOUT_SECONDS"):
        admission_of().admit(600, 0.5)
    with pytest.raises(TooLarge, match=r"0\.01 s .* 0\.000641 s"):
        admission_of().admit(10, 0.000641)


def test_slow_batches_of_other_requests_call_no_request_too_long() -> None:
    """A request is refused for ever only if it is too long at the best pace that is known."""
    backlog = FakeBacklog(seconds_per_token=4e-3, best=1e-3)
    admission_of(backlog).admit(800, 1.0)  # 3.2 s like the last batches, 0.8 s at best
    with pytest.raises(TooLarge, match=r"about 0\.8 s"):
        admission_of(backlog).admit(800, 0.5)


def test_without_a_measured_batch_no_request_is_too_long_and_a_refusal_is_short() -> None:
    backlog = FakeBacklog(is_measured=False, best=0.0)
    admission = admission_of(backlog)
    admission.admit(600, 0.5)
    backlog.before = 600
    with pytest.raises(Overloaded) as caught:
        admission.admit(200, 0.5)

    assert caught.value.retry_after == 1


def test_retry_after_is_at_most_a_minute() -> None:
    admission = admission_of(FakeBacklog(before=900, seconds_per_token=1.0))
    refusal = admission.refusal(100, 600.0)

    assert refusal is not None
    assert refusal.retry_after == 60


def test_a_short_request_is_spread_over_eight_times_its_time() -> None:
    assert admission_of().admit(100, 60.0).virtual_seconds_per_token == pytest.approx(8e-3)


def test_a_request_with_a_near_deadline_is_spread_over_the_time_that_is_left() -> None:
    # 0.5 s by itself, and half of its timeout is planned with
    assert admission_of().admit(500, 2.0).virtual_seconds_per_token == pytest.approx(1.0 / 500)
    assert admission_of().admit(500, 0.6).virtual_seconds_per_token == pytest.approx(0.5 / 500)


def test_one_clients_quota_is_nobody_elses() -> None:
    admission = admission_of(client_tokens=100)
    mine = admission.admit(90, 60.0, "me")
    with pytest.raises(ClientOverShare, match=r"90 of its 100 tokens.* 18 more") as caught:
        admission.admit(18, 60.0, "me")
    with pytest.raises(TooLarge, match=r"ELMO_MAX_CLIENT_TOKENS"):
        admission.admit(180, 60.0, "me")
    admission.admit(90, 60.0, "other")
    mine.tokens.release()

    assert caught.value.retry_after == 1
    admission.admit(18, 60.0, "me")


def test_models_share_the_queue_but_not_their_backlogs() -> None:
    limits = Limits(queue_tokens=1_000, answer_bytes=1_000)
    admission = admission_to(limits, slow=FakeBacklog(before=50_000), idle=FakeBacklog())
    with pytest.raises(Overloaded):
        admission.admit(10, 10.0, model="slow")
    admission.admit(900, 10.0, model="idle")

    assert admission.outstanding == 900
    with pytest.raises(Overloaded, match="900 of 1000 tokens"):
        admission.admit(200, 600.0, model="slow")


SLOW = {"before": 900, "seconds_per_token": 0.1}


@pytest.mark.parametrize(
    ("slow", "fast", "seconds"),
    [
        (SLOW, {}, 10),  # 100 tokens of the slow one alone
        (SLOW, {**SLOW, "seconds_per_token": 0.2}, 20),  # at the slower rate
        ({}, {}, 1),  # nothing is queued yet: at the model's own rate
    ],
)
def test_room_in_the_common_queue_comes_at_the_rate_of_the_model_that_has_work(
    slow: dict[str, Any], fast: dict[str, Any], seconds: int
) -> None:
    limits = Limits(queue_tokens=1_000, answer_bytes=1_000)
    admission = admission_to(limits, slow=FakeBacklog(**slow), fast=FakeBacklog(**fast))
    admission.admit(900, 3_600.0, model="slow")

    with pytest.raises(Overloaded, match="900 of 1000 tokens") as error:
        admission.admit(200, 3_600.0, model="fast")

    assert error.value.retry_after == seconds


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 500), st.booleans()), max_size=40))
def test_the_account_is_empty_when_every_request_has_ended(
    steps: list[tuple[int, int, bool]],
) -> None:
    """Requests end in any order, after answers of any size, some of them answered too late."""
    admission = admission_of(client_tokens=800)
    alive = []
    for sentences, answered, ends in steps:
        with contextlib.suppress(Overloaded, ClientOverShare):
            alive.append(admission.admit(10 * sentences, 60.0, f"client {sentences % 3}"))
        if alive:
            alive[answered % len(alive)].tokens.give_back(answered)
            if ends:
                ended = alive.pop(answered % len(alive))
                ended.tokens.release()
                ended.tokens.give_back(answered)
        assert 0 <= admission.outstanding <= 1_000
    for admitted in alive:
        admitted.tokens.release()
    assert admission.outstanding == 0
