"""Two computations in threads of their own: results, modes, errors, and no setting changed."""

import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
import torch

from elmo_model.threads import ParallelDirections


def thread() -> tuple[int, int]:
    """Return the running thread and its number of torch threads."""
    return threading.get_ident(), torch.get_num_threads()


@pytest.mark.parametrize(("threads", "expected"), [(2, (1, 1)), (3, (2, 1)), (8, (4, 4))])
def test_each_runs_in_a_thread_of_its_own_with_half_of_the_cores(
    threads: int, expected: tuple[int, int]
) -> None:
    first, second = ParallelDirections(threads).run(thread, thread)
    assert len({first[0], second[0], threading.get_ident()}) == 3
    assert (first[1], second[1]) == expected


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_on_one_core_both_run_in_one_thread_with_one_torch_thread(threads: int) -> None:
    first, second = ParallelDirections(threads).run_on_one_core(thread, thread)
    assert first == second
    assert first[1] == 1 and first[0] != threading.get_ident()


def test_in_a_process_of_its_own_short_steps_run_in_the_calling_thread() -> None:
    before = torch.get_num_threads()

    found = ParallelDirections(2, owns_process=True).run_on_one_core(thread, thread)

    assert found == ((threading.get_ident(), 1),) * 2
    assert torch.get_num_threads() == before


def test_with_one_torch_thread_both_run_in_the_calling_thread() -> None:
    directions = ParallelDirections(1)
    assert directions.run(thread, thread) == (thread(), thread())
    assert directions.run_on_one_core(thread, thread) == (thread(), thread())


def test_the_thread_counts_of_the_process_stay_as_they_are() -> None:
    """Neither the caller's count nor the default of new threads changes, at any time."""

    def of_a_new_thread() -> int:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(torch.get_num_threads).result()

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        directions = ParallelDirections()
        for run in (directions.run, directions.run_on_one_core, directions.run):
            assert run(of_a_new_thread, of_a_new_thread) == (3, 3)
            assert torch.get_num_threads() == 3
            assert of_a_new_thread() == 3
        assert directions.run(torch.get_num_threads, torch.get_num_threads) == (2, 1)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("inference", [True, False])
@pytest.mark.parametrize("gradients", [True, False])
def test_both_run_in_the_modes_of_the_caller(inference: bool, gradients: bool) -> None:
    def modes() -> tuple[bool, bool]:
        return torch.is_inference_mode_enabled(), torch.is_grad_enabled()

    with torch.inference_mode(inference), torch.set_grad_enabled(gradients):
        here = modes()
        assert ParallelDirections(2).run(modes, modes) == (here, here)


def test_an_exception_is_raised_when_both_have_ended() -> None:
    entered, failed = threading.Event(), threading.Event()
    ended: list[bool] = []

    def fail() -> None:
        entered.wait()
        failed.set()
        raise ArithmeticError("this one")

    def outlast() -> None:
        entered.set()
        failed.wait()
        ended.append(True)

    directions = ParallelDirections(2)
    with pytest.raises(ArithmeticError, match="this one"):
        directions.run(fail, outlast)
    assert ended == [True]
    entered.clear()
    failed.clear()
    with pytest.raises(ArithmeticError, match="this one"):
        directions.run(outlast, fail)


def test_after_ctrl_c_neither_is_left_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one goes on until the caller has left, or for so long that it never will."""
    directions, left = ParallelDirections(2), threading.Event()
    directions.run(lambda: None, lambda: None)  # its threads have started
    ended: list[bool] = []

    def interrupted(_: Future[None]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        directions.run(lambda: ended.append(not left.wait(0.2)), lambda: None)
    left.set()
    assert ended == [True]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_starts_threads_of_its_own() -> None:
    program = """
        import os, warnings
        from elmo_model.threads import ParallelDirections

        warnings.simplefilter("ignore", DeprecationWarning)  # of fork with threads, from 3.12 on
        directions = ParallelDirections(2)
        assert directions.run(lambda: 1, lambda: 2) == (1, 2)
        child = os.fork()
        if not child:
            os._exit(0 if directions.run(lambda: 3, lambda: 4) == (3, 4) else 1)
        assert os.waitpid(child, 0)[1] == 0
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=120)
