"""The largest size of a task follows the memory that there is."""

import pytest

from elmo_serve.processes.limits import SizeLimit


@pytest.mark.parametrize(
    ("tasks", "size"),
    [
        ([-400], 400),
        ([-200, -500], 200),  # the second was cut earlier and tells nothing new
        ([-100, *[100] * 31], 100),
        ([-100, *[100] * 32], 113),
        ([-100, *[50] * 1_000], 100),  # small tasks prove nothing
        ([-100, *[100] * 31, -100, 100], 100),  # a failure starts the probation again
        ([-100, *[1_000] * 32 * 40], 1_000),
    ],
)
def test_a_size_is_limited_after_a_failure_and_grows_after_many_large_tasks(
    tasks: list[int], size: int
) -> None:
    """A negative number is half of a task that failed."""
    limit = SizeLimit(1_000)
    for task in tasks:
        if task < 0:
            limit.limit(-task)
        else:
            limit.grow(task)

    assert limit.size == size
