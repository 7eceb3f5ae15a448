"""Two independent computations at once, each on its own share of the cores."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import torch

First = TypeVar("First")
Second = TypeVar("Second")


def side_by_side(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Run both and return both results; what either raises is raised here, when both are done.

    With two threads or more of torch's and no gradients to record, each runs on half of them: two
    products that need no word of each other share no barrier, and each keeps its weights in its own
    core's cache. Otherwise one after the other.
    """
    threads = torch.get_num_threads()
    if threads < 2 or torch.is_grad_enabled():
        return one_after_the_other(first, second)
    inference = torch.is_inference_mode_enabled()

    def beside() -> Second:
        _use(threads // 2)  # these settings belong to a thread
        with torch.inference_mode(inference), torch.no_grad():
            return second()

    torch.set_num_threads(threads - threads // 2)
    try:
        later = _helper().submit(beside)
        try:
            return first(), later.result()
        finally:
            later.exception()  # never leave it running
    finally:
        torch.set_num_threads(threads)


def one_after_the_other(
    first: Callable[[], First], second: Callable[[], Second]
) -> tuple[First, Second]:
    """Run both in this thread and return both results."""
    return first(), second()


def on_one_core(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Run both in this thread, and their products too where no gradients are recorded.

    Threads that share a short product spend their time waiting for each other.
    """
    threads = torch.get_num_threads()
    if threads < 2 or torch.is_grad_enabled():
        return one_after_the_other(first, second)
    torch.set_num_threads(1)
    try:
        return one_after_the_other(first, second)
    finally:
        torch.set_num_threads(threads)


def _use(threads: int) -> None:
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


@cache
def _helper() -> ThreadPoolExecutor:
    os.register_at_fork(after_in_child=_helper.cache_clear)  # a fork has none of our threads
    return ThreadPoolExecutor(1, thread_name_prefix="elmo-direction")
