"""A process whose event loop can do nothing any more ends, with one line that tells why."""

from __future__ import annotations

import asyncio
import errno
import subprocess
import sys
from typing import Any

import pytest

from elmo_serve.http.server import LoopFailureHandler

PROGRAM = """
import asyncio, logging, sys
from elmo_serve.http.server import LoopFailureHandler

logging.basicConfig(format="%(levelname)s %(message)s")

def fails(loop):
    loop.call_soon(fails, loop)
    raise MemoryError

async def main():
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(LoopFailureHandler())
    fails_soon = loop.call_soon(fails, loop)
    await asyncio.Event().wait()

if sys.argv[1] == "uvloop":
    import uvloop
    factory = uvloop.new_event_loop
else:
    factory = asyncio.new_event_loop
with asyncio.Runner(loop_factory=factory) as runner:
    runner.run(main())
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_callback_that_fails_for_ever_ends_the_process(loop: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, loop], capture_output=True, text=True, check=False
    )

    assert run.returncode == 1
    lines = [line for line in run.stderr.splitlines() if "CRITICAL" in line]
    assert lines == [
        "CRITICAL the event loop has failed 100 times within 10 seconds, out of memory or file "
        "descriptors: the server ends"
    ]
    assert len(run.stderr) < 200_000


class Bench:
    """A handler with a clock of its own, and the statuses that it has ended the process with."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.time = 0.0
        self.handler = LoopFailureHandler(self.statuses.append, lambda: self.time)
        self.loop = asyncio.new_event_loop()

    def fail(self, times: int, seconds_apart: float = 0.0, **context: Any) -> None:
        context.setdefault("exception", MemoryError())
        for _ in range(times):
            self.handler(self.loop, {"message": "Exception in callback", **context})
            self.time += seconds_apart
        self.loop.close()


def test_a_few_failures_do_not_end_it() -> None:
    bench = Bench()
    bench.fail(99)

    assert bench.statuses == []


def test_failures_far_apart_do_not_end_it() -> None:
    bench = Bench()
    bench.fail(1_000, seconds_apart=1.0)

    assert bench.statuses == []


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM])
def test_a_want_of_descriptors_counts_as_well(number: int) -> None:
    bench = Bench()
    bench.fail(100, exception=OSError(number, "none left"))

    assert bench.statuses == [1]


@pytest.mark.parametrize(
    "context",
    [{"transport": object()}, {"future": object()}, {"exception": ValueError("a fault")}],
    ids=["of a connection", "of a task", "another fault"],
)
def test_failures_that_end_by_themselves_do_not_count(context: dict[str, Any]) -> None:
    bench = Bench()
    bench.fail(1_000, **context)

    assert bench.statuses == []
