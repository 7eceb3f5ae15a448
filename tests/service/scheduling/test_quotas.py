"""Budgets count each unit once, whatever order it is given back in."""

from hypothesis import given
from hypothesis import strategies as st

from elmo_serve.scheduling.quotas import Budget, ClientQuotas


def test_a_hold_gives_back_what_it_has_left_and_no_more() -> None:
    budget = Budget(10)
    hold = budget.hold(7)
    assert (budget.used, budget.excess(3), budget.excess(5)) == (7, 0, 2)

    hold.give_back(2)
    assert (budget.used, hold.left) == (5, 5)
    hold.release()
    hold.release()
    hold.give_back(3)
    assert (budget.used, hold.left) == (0, 0)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=60))
def test_a_budget_is_the_sum_of_what_its_holds_have_left(steps: list[tuple[int, int]]) -> None:
    budget = Budget(20)
    holds = [budget.hold(5 * number) for number in range(5)]
    for index, amount in steps:
        if amount:
            holds[index].give_back(amount)
        else:
            holds[index].release()
        assert budget.used == sum(hold.left for hold in holds) >= 0


def test_without_a_limit_nothing_is_in_excess() -> None:
    budget, quotas = Budget(), ClientQuotas(None)
    budget.hold(1_000_000)
    quotas.hold("a", 1_000_000)

    assert budget.excess(1_000_000) == quotas.excess("a", 1_000_000) == 0


def test_each_client_has_a_budget_of_its_own() -> None:
    quotas = ClientQuotas(10)
    hold = quotas.hold("a", 7)
    assert (quotas.excess("a", 3), quotas.excess("a", 5), quotas.excess("b", 10)) == (0, 2, 0)

    hold.release()
    assert (quotas.excess("a", 10), quotas.used("a")) == (0, 0)


def test_clients_are_stored_only_while_they_use_something() -> None:
    quotas = ClientQuotas(10)
    one, two, nothing = quotas.hold("a", 3), quotas.hold("a", 4), quotas.hold("b", 0)
    assert len(quotas) == 1

    one.release()
    nothing.release()
    assert (len(quotas), quotas.used("a")) == (1, 4)
    two.release()
    assert len(quotas) == 0
    again = quotas.hold("a", 5)
    assert quotas.used("a") == 5
    again.release()
    assert len(quotas) == 0
