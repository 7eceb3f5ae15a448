"""Inference mode, threads, and two computations at once on half of the cores each."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

First = TypeVar("First")
Second = TypeVar("Second")
Result = TypeVar("Result")


@contextmanager
def inference(device: torch.device) -> Iterator[None]:
    """Compute without gradients, and in the types of the weights in a caller's autocast too."""
    with torch.inference_mode(), torch.autocast(device.type, enabled=False):
        yield


_TRIALS, _TRIAL_SECONDS = 3, 10.0
"""Timed calls with each number of threads, and the seconds after which no other round begins. More
follow a busy machine more surely and begin the work later."""
_GAIN = 1.1
"""How many times faster several threads must be: a little is lost again when neighbours come."""


def fastest_threads(
    step: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> int:
    """Return one, or the torch threads of this thread where they take a step in less time.

    The threads of one product wait for each other at its end. Beside other busy programs a core is
    not always there for each of them, and all wait for the last one.
    """
    several = torch.get_num_threads()
    seconds = {1: 0.0, several: 0.0}
    if several == 1:
        return 1
    for trial in range(_TRIALS + 1):
        for count in seconds:
            with using_threads(count):
                begin = clock()
                step()
                if trial:  # the first call allocates memory and starts threads
                    seconds[count] += clock() - begin
        if sum(seconds.values()) > _TRIAL_SECONDS:
            break
    return several if _GAIN * seconds[several] < seconds[1] else 1


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Compute with this number of torch threads meanwhile."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class ParallelDirections:
    """Runs two computations in parallel or on one core, by threads that this object owns.

    `threads` is the number of torch threads to share, by default that of the creating thread. The
    threads start at the first call and end with this object. `torch.set_num_threads` is called only
    inside of them, once each: the thread count of the caller, and the one that torch gives to new
    threads of the process, stay as they are.

    With `owns_process` the process does nothing besides. Short steps then run in the calling
    thread, whose count is one meanwhile, so that no other thread has to wake up for each batch
    (benchmarks/network.py, one sentence of the built-in model).
    """

    def __init__(self, threads: int | None = None, *, owns_process: bool = False) -> None:
        self.threads = torch.get_num_threads() if threads is None else threads
        self._owns_process = owns_process
        self._caller = torch.get_num_threads()
        self._first = _Thread(self.threads - self.threads // 2)
        self._second = _Thread(max(1, self.threads // 2))
        self._single = self._second if self.threads <= 3 else _Thread(1)

    @property
    def counts(self) -> tuple[int, ...]:
        """The different numbers of torch threads that computations are given, from 1 up."""
        return tuple(sorted({1, self._caller, self.threads, self._first.count, self._second.count}))

    @property
    def step_counts(self) -> tuple[int, ...]:
        """The different numbers of torch threads that the directions are given, from 1 up."""
        parallel = tuple(sorted({1, self._first.count, self._second.count}))
        return self.counts if self.threads < 2 else parallel

    @staticmethod
    def with_each_count(compute: Callable[[], Result], counts: Sequence[int]) -> list[Result]:
        """Run `compute` with each number of torch threads, one after another, in new threads."""
        results = []
        for count in counts:
            thread = _Thread(count)
            thread.start()
            results.append(thread.submit(compute).result())
        return results

    def run(self, first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
        """Run both in parallel, each on half of the threads, and return both results.

        The directions of a biLM are independent, so separate threads need no synchronisation and
        keep their weights in the cache of their own core. With fewer than two torch threads both
        run in the calling thread. An exception of either is raised when both have ended.
        """
        if self.threads < 2:
            return first(), second()
        self._first.start()
        self._second.start()
        one, other = self._first.submit(first), self._second.submit(second)
        try:
            return one.result(), other.result()
        finally:
            one.exception()  # waits: neither is left running, after Ctrl-C too
            other.exception()
            del one, other  # an exception holds this frame, and a future holds the exception

    def run_on_one_core(
        self, first: Callable[[], First], second: Callable[[], Second]
    ) -> tuple[First, Second]:
        """Run both one after the other, with one torch thread, and return both results.

        Threads that share a short product spend their time waiting for each other.
        """
        if self.threads < 2:
            return first(), second()
        if self._owns_process:
            before = torch.get_num_threads()
            torch.set_num_threads(1)
            try:
                return first(), second()
            finally:
                torch.set_num_threads(before)
        self._single.start()
        return self._single.submit(lambda: (first(), second())).result()


class _Thread:
    """A thread with a fixed number of torch threads."""

    def __init__(self, torch_threads: int) -> None:
        self.count = torch_threads
        self._executor = ThreadPoolExecutor(1)
        self._process = 0  # that the thread was started in: a forked child has none of the threads

    def start(self) -> None:
        """Start the thread if this process has not started it yet."""
        if self._process == os.getpid():
            return
        with _STARTING:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="elmo-direction")
            self._executor.submit(_use_torch_threads, self.count).result()
            self._process = os.getpid()

    def submit(self, compute: Callable[[], Result]) -> Future[Result]:
        """Run `compute` in the grad mode and inference mode of the caller."""
        gradients, is_inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()

        def run() -> Result:
            with torch.inference_mode(is_inference), torch.set_grad_enabled(gradients):
                return compute()

        return self._executor.submit(run)


# Held while a thread sets its count, which changes the default of the whole process for a moment.
_STARTING = threading.Lock()


def _use_torch_threads(count: int) -> None:
    """Set the torch threads of this thread, and of no other.

    torch applies the default to a thread when that thread first asks, so `get_num_threads` has to
    come first. `set_num_threads` also changes the default for threads that start later; a thread
    that ends at once puts it back.
    """
    default = torch.get_num_threads()
    torch.set_num_threads(count)
    restore = threading.Thread(target=torch.set_num_threads, args=(default,))
    restore.start()
    restore.join()
