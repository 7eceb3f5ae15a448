"""Two computations at once: both answers, both modes, and no setting left behind."""

import threading
from collections.abc import Iterator

import pytest
import torch

from elmo_model.inference.parallel_directions import on_one_core, side_by_side


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_each_runs_in_a_thread_of_its_own_on_half_of_the_cores() -> None:
    with torch.no_grad():
        first, second = side_by_side(
            lambda: (threading.get_ident(), torch.get_num_threads()),
            lambda: (threading.get_ident(), torch.get_num_threads()),
        )
    assert first[0] != second[0]
    assert (first[1], second[1]) == (1, 1)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("inference", [True, False])
def test_the_second_runs_in_the_mode_of_the_caller(inference: bool) -> None:
    with torch.inference_mode(inference), torch.no_grad():
        _, modes = side_by_side(
            lambda: None,
            lambda: (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        )
    assert modes == (False, inference)


def test_gradients_are_recorded_in_one_thread() -> None:
    first, second = side_by_side(threading.get_ident, threading.get_ident)
    assert first == second == threading.get_ident()


def test_what_either_raises_is_raised_when_both_are_done() -> None:
    done = threading.Event()

    def fail() -> None:
        raise ArithmeticError("this one")

    with torch.no_grad():
        with pytest.raises(ArithmeticError, match="this one"):
            side_by_side(fail, done.set)
        assert done.is_set()
        with pytest.raises(ArithmeticError, match="this one"):
            side_by_side(lambda: None, fail)
    assert torch.get_num_threads() == 2


def test_many_callers_at_once_get_their_own_answers() -> None:
    answers: dict[int, tuple[int, int]] = {}

    def call(number: int) -> None:
        with torch.no_grad():
            answers[number] = side_by_side(lambda: number, lambda: -number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: (number, -number) for number in range(8)}


def test_on_one_core_no_thread_is_shared_with() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with torch.inference_mode():
            assert on_one_core(torch.get_num_threads, torch.get_num_threads) == (1, 1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
