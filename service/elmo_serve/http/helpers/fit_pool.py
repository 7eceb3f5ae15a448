"""The process that parses the bodies of fits: of 8 MiB, or of text, it takes up to minutes.

A process of its own, so that no response in JSON and no text of `POST /embed` waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elmo_serve.http.calls.body import Body
from elmo_serve.http.helpers.pool import HelperKind, HelperPool
from elmo_serve.http.helpers.process import InSlices, Memory
from elmo_serve.jobs.bodies import read_fit
from elmo_serve.jobs.plan import FitPlan, FitSource
from elmo_serve.workers.shared_memory import Bytes, SharedMemoryPool
from elmo_serve.workers.watchdog import EVENT_LOOP_CLOCK, Clock, Timeouts

if TYPE_CHECKING:  # the process imports this module and keeps no metrics
    from elmo_serve.metrics import Metrics


def _prepare() -> None:
    """Do nothing: the process needs the imports of this module."""


_KIND = HelperKind(
    name="body",
    title="body parser",
    refusal="The body could not be read",
    timeouts=Timeouts(load=120.0, batch=5.0),
    minimum_size=1 << 14,
    prepare=_prepare,
    lazy=True,
    seconds_per_unit=1e-5,  # Moses splits some 100,000 characters a second
)


class FitParser(HelperPool):
    """One process, spawned for the first body."""

    def __init__(
        self, segments: SharedMemoryPool, metrics: Metrics, clock: Clock = EVENT_LOOP_CLOCK
    ) -> None:
        super().__init__(_KIND, 1, segments, metrics, clock)

    async def parse(self, body: Body, source: FitSource) -> FitPlan:
        """Return the plan of a fit, and free the pieces of its body.

        Raises:
            ServiceError: the error that `read_fit` raises.
            Unavailable: two processes were lost over it, none can be started, or memory is short.
        """
        segment, array = self.segments.acquire(max(body.size, 1))
        body.move_to(array)
        plan: FitPlan = await self.run(
            _plan, Memory(segment, array), body.size, source, size=body.size
        )
        return plan


def _plan(memory: Bytes, size: int, source: FitSource) -> InSlices:
    """Parse the first `size` bytes of `memory`."""
    return InSlices(read_fit(memory.data[:size], source).plan(), ("sentences",))
