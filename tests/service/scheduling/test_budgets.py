"""Each unit of a budget counts once; one client alone may use all bytes, and keeps no other out."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_serve.errors import ClientOverShare, Overloaded, TooLarge
from elmo_serve.scheduling.budgets import Budget, ByteBudget
from tests.support.clock import FakeClock

FULL = (Overloaded, ClientOverShare)


def budget_of(limit: int = 1_000, clock: FakeClock | None = None) -> ByteBudget:
    return ByteBudget(limit, "answers", "ELMO_MAX_ANSWER_BYTES", (clock or FakeClock()).now)


def test_a_hold_gives_back_what_it_has_left_and_no_more() -> None:
    budget = Budget()
    hold, other = budget.hold("a", 7), budget.hold("b", 1)
    hold.give_back(2)
    assert (budget.used, budget.used_by("a"), hold.left) == (6, 5, 5)

    hold.give_back(9)
    hold.release()
    assert (budget.used, budget.used_by("a"), hold.left) == (1, 0, 0)
    other.release()
    assert not budget._by_client, "clients are stored only while they use something"


def test_a_client_alone_may_use_all() -> None:
    budget = budget_of()
    held = budget.hold("a", 600)
    held.add(400)
    with pytest.raises(Overloaded, match="1000 of 1000 bytes of answers"):
        budget.hold("a", 1)
    held.release()
    held.release()

    assert budget.used == 0
    budget.hold("a", 1_000)


def test_more_than_all_is_too_large() -> None:
    with pytest.raises(TooLarge, match="ELMO_MAX_ANSWER_BYTES"):
        budget_of().hold("a", 1_001)


def test_half_is_open_to_another_client_whatever_one_uses() -> None:
    budget = budget_of()
    greedy = budget.hold("a", 1_000)

    with pytest.raises(ClientOverShare):
        budget.hold("b", 501)
    budget.hold("b", 500)
    with pytest.raises(ClientOverShare, match="1000 of 1000"):
        budget.hold("a", 1)
    with pytest.raises(Overloaded):  # two clients have a half each
        budget.hold("c", 1)
    greedy.release()
    budget.hold("c", 500)


def test_what_fits_beside_all_others_is_no_matter_of_shares() -> None:
    """Else a large answer would never be let in on a server that is never empty."""
    budget = budget_of()
    budget.hold("b", 100)

    budget.hold("a", 900)


@pytest.mark.parametrize(
    ("released", "seconds", "expected"),
    [
        (0, 0.01, 1),
        (0, 20, 20),  # nothing was given back for as long
        (0, 500, 60),
        (100, 2, 8),  # 100 bytes in 2 s, and 400 are wanted
        (400, 2, 2),
    ],
)
def test_the_client_is_told_when_there_will_be_room(
    released: int, seconds: float, expected: int
) -> None:
    clock = FakeClock()
    budget = budget_of(clock=clock)
    budget.hold("a", 1_000 - released)
    leaves = budget.hold("a", released)
    clock.advance(seconds)
    leaves.release()

    with pytest.raises(Overloaded) as error:
        budget.hold("a", 400 + released)

    assert error.value.retry_after == expected


def test_a_pace_of_long_ago_does_not_count() -> None:
    clock = FakeClock()
    budget = budget_of(clock=clock)
    budget.hold("a", 500)
    for _ in range(1_000):
        clock.advance(0.01)
        budget.hold("a", 400).release()
    clock.advance(100)

    with pytest.raises(Overloaded) as error:
        budget.hold("a", 600)

    assert error.value.retry_after == 60


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 700), st.booleans()), max_size=60))
def test_the_sum_is_bounded_and_empty_in_the_end(steps: list[tuple[int, int, bool]]) -> None:
    idle: list[bool] = []
    budget = ByteBudget(1_000, "answers", "", FakeClock().now, on_idle=lambda: idle.append(True))
    alive = []
    for client, size, ends in steps:
        with contextlib.suppress(*FULL):
            alive.append(budget.hold(f"{client}", size))
        assert budget.used == sum(hold.left for hold in alive) <= 1_500
        if ends and alive:
            alive.pop(client % len(alive)).release()
    was_used = budget.used > 0
    for hold in alive:
        hold.release()
    assert budget.used == 0
    assert not budget._by_client
    assert bool(idle) or not was_used
