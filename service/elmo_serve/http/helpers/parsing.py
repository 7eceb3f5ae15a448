"""Parse the bodies of large requests in other processes: pydantic holds the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from elmo_serve.http.calls.parse import Parsed, RequestLimits, RequestT
from elmo_serve.http.calls.parse import parse as parse_here
from elmo_serve.http.helpers.pool import HelperPool, PoolOptions
from elmo_serve.processes.arena import Bytes
from elmo_serve.processes.watchdog import Timeouts

if TYPE_CHECKING:  # the processes import this module and receive no bodies
    from elmo_serve.http.calls.body import Body

PARSING: Final = PoolOptions(
    name="parse",
    title="parsing process",
    refusal="The body could not be read",
    timeouts=Timeouts(load=60.0, first_batch=10.0, batch=10.0),
    minimum_size=1 << 19,
    is_lazy=True,  # many servers get small bodies alone, which are parsed in the server
)


async def parse(
    pool: HelperPool, model: type[RequestT], body: Body, limits: RequestLimits
) -> Parsed[RequestT]:
    """Return `calls.parse.parse(model, body, limits)`, and free the pieces of the body.

    Raises:
        ServiceError: the error that `calls.parse.parse` raises.
        HelperError, Unavailable: see `HelperPool.run_on`.
    """
    parsed: Parsed[RequestT] = await pool.run_on(body, _parsed, model, limits)
    return parsed


def _parsed(
    memory: Bytes, size: int, model: type[RequestT], limits: RequestLimits
) -> Parsed[RequestT]:
    """Parse the first `size` bytes of `memory`."""
    return parse_here(model, memory.data[:size], limits)
