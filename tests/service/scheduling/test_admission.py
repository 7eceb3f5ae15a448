"""Admission refuses early and honestly, and counts every token and byte once."""

import contextlib
from dataclasses import dataclass
from typing import Self, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_serve.errors import ClientOverShare, Overloaded, TooLarge
from elmo_serve.scheduling.admission import Admission, Admitted, QueueLimits
from elmo_serve.scheduling.dispatcher import Dispatcher
from elmo_serve.scheduling.request import Sentences
from elmo_serve.scheduling.throughput import Backlog
from elmo_serve.selection import Output
from elmo_serve.workers.language_results import Scores, Substitutes, Wanted

TOP = Output(layers=(2,))


@dataclass
class FakeDispatcher:
    """Some tokens of bulk and of interactive requests are queued, at a known rate."""

    bulk: float = 0.0
    seconds_per_token: float = 1e-3
    interactive: float = 0.0
    interactive_size: int = 0
    best: float | None = None

    @property
    def best_seconds_per_token(self) -> float:
        return self.seconds_per_token if self.best is None else self.best

    @property
    def pool(self) -> Self:
        return self

    @property
    def backlog(self) -> Backlog:
        rate = self.seconds_per_token
        return Backlog(rate * self.interactive, rate * self.bulk, due=rate * self.bulk)


def admission_to(limits: QueueLimits, **dispatchers: FakeDispatcher) -> Admission:
    return Admission(limits, cast(dict[str, Dispatcher], dispatchers))


def admission_of(
    dispatcher: FakeDispatcher | None = None, *, queue_tokens: int = 1_000
) -> Admission:
    limits = QueueLimits(queue_tokens, answer_bytes=1_000)
    return admission_to(limits, default=dispatcher or FakeDispatcher())


def ask(
    admission: Admission,
    cost: int,
    timeout: float = 60.0,
    client: str = "",
    model: str = "default",
    *,
    output: Wanted = TOP,
    is_bulk: bool = False,
) -> Admitted:
    """Ask for one sentence of `cost` tokens, boundaries included."""
    sentences = Sentences([b"[]"], [cost - 2], [output])
    return admission.admit(sentences, timeout, client, model, is_bulk=is_bulk)


def test_a_request_that_never_has_room_is_too_large_and_not_refused_for_now() -> None:
    admission = admission_of()
    ask(admission, 1_000)
    with pytest.raises(TooLarge, match="ELMO_MAX_QUEUE_TOKENS"):
        ask(admission, 1_010)


def test_an_interactive_request_is_not_refused_for_the_bulk_that_it_overtakes() -> None:
    """Interactive requests are given half of the workers, so 100 tokens of others take 0.2 s."""
    dispatcher = FakeDispatcher(bulk=800, interactive=100, interactive_size=100)
    assert not ask(admission_of(dispatcher), 100, 0.8).is_bulk
    with pytest.raises(Overloaded, match=r"0\.2 s"):
        ask(admission_of(dispatcher), 100, 0.5)
    for cost, is_bulk in ((110, False), (100, True)):
        with pytest.raises(Overloaded):
            ask(admission_of(dispatcher), cost, 1.0, is_bulk=is_bulk)
    dispatcher.interactive = 0

    assert not ask(admission_of(dispatcher), 100, 0.5).is_bulk


def test_tokens_of_bulk_refuse_no_interactive_request() -> None:
    """One client without malice, whose bulk filled the queue, shut everybody out."""
    admission = admission_of(FakeDispatcher(interactive_size=100))
    ask(admission, 992, client="bulk")
    ask(admission, 10, client="other")
    with pytest.raises(Overloaded, match="992 of 1000"):
        ask(admission, 101, client="bulk")
    for _ in range(10):
        ask(admission, 99, client="other")
    with pytest.raises(Overloaded, match="1000 of 1000"):
        ask(admission, 100, client="other")


def test_while_others_ask_a_client_has_half_of_the_tokens() -> None:
    admission = admission_of()
    mine = ask(admission, 1_000, client="me")
    with pytest.raises(ClientOverShare):
        ask(admission, 501, client="other")
    ask(admission, 500, client="other")
    with pytest.raises(ClientOverShare) as caught:
        ask(admission, 200, client="me")
    mine.tokens.release()

    assert caught.value.retry_after == 1  # 700 tokens more than there are, at 1 ms each
    ask(admission, 500, client="me")


@pytest.mark.parametrize(
    ("output", "seconds"),
    [
        (Output(layers=(0, 1, 2), stacked=True), 0.1),
        (Scores(), 0.4),
        (Substitutes(tuple(range(50)), 10, "both"), 0.3),
    ],
)
def test_what_the_language_model_computes_is_bulk_and_counts_its_time(
    output: Wanted, seconds: float
) -> None:
    admission = admission_of(FakeDispatcher(interactive_size=1_000))
    admitted = ask(admission, 100, output=output)

    assert admitted.is_bulk == (not isinstance(output, Output))
    assert admitted.tokens.left == 100
    assert admitted.virtual_seconds_per_token == pytest.approx(8 * seconds / 100)


def test_a_request_that_is_larger_than_a_batch_or_said_to_be_is_bulk() -> None:
    admission = admission_of(FakeDispatcher(interactive_size=100))

    assert [ask(admission, cost).is_bulk for cost in (100, 101)] == [False, True]
    assert ask(admission, 100, is_bulk=True).is_bulk


def test_a_request_that_takes_longer_than_its_timeout_by_itself_is_too_large() -> None:
    """Clients send a 504 again, and this request would never be in time."""
    with pytest.raises(TooLarge, match=r"0\.6 s .* 0\.5 s .*ELMO_REQUEST_TIMEOUT_SECONDS"):
        ask(admission_of(), 600, 0.5)
    with pytest.raises(TooLarge, match=r"0\.01 s .* 0\.000641 s"):
        ask(admission_of(), 10, 0.000641)


def test_slow_batches_of_other_requests_call_no_request_too_long() -> None:
    """A request is refused for ever only if it is too long at the best pace that is known."""
    dispatcher = FakeDispatcher(seconds_per_token=4e-3, best=1e-3)
    ask(admission_of(dispatcher), 800, 1.0)  # 3.2 s like the last batches, 0.8 s at best
    with pytest.raises(TooLarge, match=r"about 0\.8 s"):
        ask(admission_of(dispatcher), 800, 0.5)


def test_without_a_measured_batch_no_request_is_too_long() -> None:
    ask(admission_of(FakeDispatcher(best=0.0)), 600, 0.5)


@pytest.mark.parametrize(
    ("before", "cost", "timeout", "seconds"),
    [
        (31, 1, 60, 2),  # at 30 s it is done
        (35, 1, 60, 6),
        (900, 1, 60, 60),
        (31, 31, 60, 31),  # more than half of its time by itself: when nothing is ahead
        (10, 1, 2, 10),
    ],
)
def test_retry_after_is_when_there_is_room(
    before: int, cost: int, timeout: float, seconds: int
) -> None:
    dispatcher = FakeDispatcher(bulk=before, seconds_per_token=1.0, best=0.0)
    with pytest.raises(Overloaded) as caught:
        ask(admission_of(dispatcher), cost, timeout)

    assert caught.value.retry_after == seconds


def test_a_short_request_is_spread_over_eight_times_its_time() -> None:
    assert ask(admission_of(), 100).virtual_seconds_per_token == pytest.approx(8e-3)


def test_a_request_with_a_near_deadline_is_spread_over_the_time_that_is_left() -> None:
    # 0.5 s by itself, and half of its timeout is planned with
    for timeout, seconds in ((2.0, 1.0), (0.6, 0.5)):
        admitted = ask(admission_of(), 500, timeout)
        assert admitted.virtual_seconds_per_token == pytest.approx(seconds / 500)


def test_models_share_the_tokens_but_not_their_backlogs() -> None:
    limits = QueueLimits(1_000, answer_bytes=1_000)
    admission = admission_to(limits, slow=FakeDispatcher(bulk=50_000), idle=FakeDispatcher())
    with pytest.raises(Overloaded):
        ask(admission, 10, 10.0, model="slow")
    ask(admission, 900, 10.0, model="idle")

    assert admission.outstanding == 900
    with pytest.raises(Overloaded, match="900 of 1000 tokens"):
        ask(admission, 200, 600.0, model="slow")


@pytest.mark.parametrize(
    ("waits", "is_refused"),
    [
        ({"a": 40, "b": 31}, True),
        ({"a": 40, "b": 30}, False),
        ({"a": 31}, True),
        ({}, False),  # no model is ready: the route says so
    ],
)
def test_a_request_is_refused_unread_where_no_model_has_time_for_the_smallest(
    waits: dict[str, int], is_refused: bool
) -> None:
    """An interactive request waits for all before it, or twice for the interactive ones."""
    dispatchers = {
        model: FakeDispatcher(
            bulk=1_000, interactive=waits.get(model, 0) / 2, seconds_per_token=1.0
        )
        for model in "ab"
    }
    admission = admission_to(QueueLimits(10, answer_bytes=1_000), **dispatchers)
    with contextlib.ExitStack() as stack:
        if is_refused:
            refusal = stack.enter_context(pytest.raises(Overloaded))
        admission.check_unread(60.0, waits)

    assert not is_refused or refusal.value.retry_after in (1, 10)  # of the first that has time


def test_a_queue_full_of_tokens_refuses_nobody_unread() -> None:
    admission = admission_of(FakeDispatcher(interactive_size=1_000))
    ask(admission, 1_000)

    admission.check_unread(1e-3, ["default"])


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 500), st.booleans()), max_size=40))
def test_the_account_is_empty_when_every_request_has_ended(
    steps: list[tuple[int, int, bool]],
) -> None:
    """Requests end in any order, after answers of any size, some of them answered too late."""
    admission = admission_of(FakeDispatcher(interactive_size=200))
    alive = []
    for sentences, answered, ends in steps:
        with contextlib.suppress(Overloaded, ClientOverShare):
            alive.append(ask(admission, 10 * sentences, client=f"client {sentences % 3}"))
        if alive:
            alive[answered % len(alive)].tokens.give_back(answered)
            if ends:
                ended = alive.pop(answered % len(alive))
                ended.tokens.release()
                ended.tokens.give_back(answered)
        assert 0 <= admission.outstanding <= 3_000  # interactive and bulk, half of it for others
    for admitted in alive:
        admitted.tokens.release()
    assert admission.outstanding == 0
