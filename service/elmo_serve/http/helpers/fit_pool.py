"""The process that parses the bodies of fits: of 8 MiB, or of text, it takes up to minutes.

A process of its own, so that no response in JSON and no text of `POST /embed` waits for it.
"""

from __future__ import annotations

from typing import Final

from elmo_serve.http.calls.body import Body
from elmo_serve.http.helpers.pool import HelperPool, PoolOptions
from elmo_serve.http.helpers.process import InSlices
from elmo_serve.http.helpers.text import SPLITTING
from elmo_serve.jobs.bodies import read_fit
from elmo_serve.jobs.plan import FitPlan, FitSource
from elmo_serve.workers.shared_memory import Bytes
from elmo_serve.workers.watchdog import Timeouts

FIT: Final = PoolOptions(
    name="body",
    title="body parser",
    refusal="The body could not be read",
    timeouts=Timeouts(load=120.0, batch=5.0),
    minimum_size=1 << 14,
    is_lazy=True,
    prepare=SPLITTING.prepare,  # within the time of a start, not of a body
    seconds_per_unit=1e-5,  # Moses splits some 100,000 characters a second
)


class FitParser(HelperPool):
    """One process, spawned for the first body."""

    async def parse(self, body: Body, source: FitSource) -> FitPlan:
        """Return the plan of a fit, and free the pieces of its body.

        Raises:
            ServiceError: the error that `read_fit` raises.
            Unavailable: two processes were lost over it, none can be started, or memory is short.
        """
        plan: FitPlan = await self.run_on(body, _plan, source)
        return plan


def _plan(memory: Bytes, size: int, source: FitSource) -> InSlices:
    """Parse the first `size` bytes of `memory`."""
    return InSlices(read_fit(memory.data[:size], source).plan())
