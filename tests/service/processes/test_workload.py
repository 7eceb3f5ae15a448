"""The budget of a task: halved after a lack of memory, and grown again after a probation."""

from elmo_serve.processes.watchdog import BatchBudget


def test_half_of_a_failed_batch_is_allowed() -> None:
    budget = BatchBudget(1_000)
    budget.limit(400)

    assert budget.size == 400


def test_a_failed_batch_that_was_cut_earlier_tells_nothing_new() -> None:
    budget = BatchBudget(1_000)
    budget.limit(200)
    budget.limit(500)

    assert budget.size == 200


def test_it_grows_back_to_the_largest_after_many_large_batches() -> None:
    budget = BatchBudget(1_000)
    budget.limit(100)
    for _ in range(31):
        budget.grow(100)
    assert budget.size == 100
    budget.grow(100)
    assert budget.size == 113
    for _ in range(32 * 40):
        budget.grow(budget.size)

    assert budget.size == 1_000


def test_small_batches_prove_nothing() -> None:
    budget = BatchBudget(1_000)
    budget.limit(100)
    for _ in range(1_000):
        budget.grow(50)

    assert budget.size == 100


def test_a_failure_starts_the_probation_again() -> None:
    budget = BatchBudget(1_000)
    budget.limit(100)
    for _ in range(31):
        budget.grow(100)
    budget.limit(100)
    budget.grow(100)

    assert budget.size == 100
