"""The number of threads is chosen by a trial."""

from collections.abc import Iterator

import pytest
import torch

from elmo_model.threads import fastest_threads


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("seconds", "expected"), [((9.0, 5.0), 2), ((9.0, 8.9), 1), ((1, 50), 1)])
def test_several_threads_are_taken_where_they_are_faster(
    seconds: tuple[float, float], expected: int
) -> None:
    now = 0.0

    def step() -> None:
        nonlocal now
        now += seconds[torch.get_num_threads() - 1]

    assert fastest_threads(step, lambda: now) == expected
    assert torch.get_num_threads() == 2


def test_one_thread_needs_no_trial() -> None:
    torch.set_num_threads(1)

    assert fastest_threads(lambda: pytest.fail("a trial"), lambda: 0.0) == 1
