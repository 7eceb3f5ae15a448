"""Each unit of a budget counts once; one client alone may use all bytes, and keeps no other out."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_serve.errors import ClientOverShare, Overloaded, TooLarge
from elmo_serve.scheduling.budgets import Budget

FULL = (Overloaded, ClientOverShare)


def budget_of(limit: int = 1_000) -> Budget:
    return Budget(limit, "bytes of answers", "ELMO_MAX_ANSWER_BYTES")


def test_a_hold_gives_back_what_it_has_left_and_no_more() -> None:
    budget = budget_of()
    hold, other = budget.hold("a", 7), budget.hold("b", 1)
    hold.give_back(2)
    assert (budget.used, budget._by_client["a"], hold.left) == (6, 5, 5)

    hold.give_back(9)
    hold.release()
    assert (budget.used, budget._by_client["a"], hold.left) == (1, 0, 0)
    other.release()
    assert not budget._by_client, "clients are stored only while they use something"


def test_a_client_alone_may_use_all() -> None:
    budget = budget_of()
    held = budget.hold("a", 600)
    held.add(400)
    with pytest.raises(Overloaded, match="1000 of 1000"):
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


def test_a_refusal_says_two_seconds_whatever_clients_read() -> None:
    budget = budget_of()
    budget.hold("a", 1_000)

    with pytest.raises(Overloaded) as error:
        budget.hold("a", 900)

    assert error.value.retry_after == 2


def test_a_small_hold_always_fits() -> None:
    """Two clients that read large answers slowly kept all others out."""
    budget = Budget(1_024_000, "bytes of answers", "")
    for client in ("a", "b"):
        budget.hold(client, 512_000)

    small = budget.hold("c", 1_000)
    with pytest.raises(FULL):
        small.add(1)
    with pytest.raises(FULL):
        budget.hold("a", 1_001)
    budget.hold("a", 1_000)


@pytest.mark.parametrize("connections", [10, 1_024, 4_096])
def test_bodies_in_pieces_sum_to_one_limit_more(connections: int) -> None:
    """The whole hold is small or not: pieces of 64 KiB by themselves are all small."""
    limit, piece = 128 << 20, 1 << 16
    budget = Budget(limit, "bytes of request bodies", "", connections=connections)
    large = budget.hold("first", limit)
    small = [budget.hold(f"client {number % 8}") for number in range(max(1_024, connections))]
    for _ in range(8):
        for hold in small:
            with contextlib.suppress(*FULL):
                hold.add(piece)

    assert sum(hold.left for hold in small) <= 1.5 * limit
    large.release()
    assert budget.used <= 1.5 * limit


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 700), st.booleans()), max_size=60))
def test_the_sum_is_bounded_and_empty_in_the_end(steps: list[tuple[int, int, bool]]) -> None:
    idle: list[bool] = []
    budget = Budget(1_000, "bytes of answers", "", on_idle=lambda: idle.append(True))
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
