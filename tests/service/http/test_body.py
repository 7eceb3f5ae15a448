"""The body of a request is received within its limits."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from starlette.types import Message, Receive, Scope

from elmo_serve.errors import Overloaded, TooLarge
from elmo_serve.http.body import SMALL_BODY_BYTES, Body
from elmo_serve.http.deadline import DisconnectError
from elmo_serve.scheduling.budgets import Budget
from tests.support.http_messages import http_scope, pieces

LARGE = SMALL_BODY_BYTES + 1
MOST = 1 << 20


def budget_of(limit: int = MOST) -> Budget:
    return Budget(limit, "bytes of request bodies", "ELMO_MAX_BODY_BYTES")


@contextmanager
def body_of(scope: Scope, budget: Budget, max_bytes: int = MOST) -> Iterator[Body]:
    body = Body(scope, budget, max_bytes)
    try:
        yield body
    finally:
        body.release()


async def read(scope: Scope, receive: Receive, budget: Budget, max_bytes: int = MOST) -> bytes:
    with body_of(scope, budget, max_bytes) as body:
        await body.receive(receive)
        return body.take()


async def never() -> Message:
    """Wait for a piece that does not come."""
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_body_in_pieces_is_whole() -> None:
    budget = budget_of()

    with body_of(http_scope(), budget) as body:
        await body.receive(pieces(b"a" * LARGE, b"", b"bc"))
        assert body.size == LARGE + 2
        memory = np.zeros(LARGE + 2, np.uint8)
        body.move_to(memory)
        assert budget.used == LARGE + 2, "it counts until the block is left"

    assert memory.tobytes() == b"a" * LARGE + b"bc"
    assert budget.used == 0
    assert await read(http_scope(), pieces(b"a" * LARGE, b"bc"), budget) == b"a" * LARGE + b"bc"


async def test_what_is_announced_counts_when_it_has_come() -> None:
    """Else sixteen connections with a head each would shut out all other large bodies."""
    budget = budget_of()
    gate = asyncio.Event()

    async def slow() -> Message:
        if budget.used:
            await gate.wait()
        return {"type": "http.request", "body": b"a" * LARGE, "more_body": not budget.used}

    with body_of(http_scope(content_length=str(MOST)), budget) as body:
        receiving = asyncio.create_task(body.receive(slow))
        await asyncio.sleep(0)
        assert budget.used == LARGE
        gate.set()
        await receiving
        assert budget.used == 2 * LARGE


async def test_small_bodies_are_not_counted() -> None:
    body = b"a" * SMALL_BODY_BYTES

    assert await read(http_scope(), pieces(body), budget_of(0)) == body


async def test_a_body_that_does_not_fit_now_is_asked_to_come_again() -> None:
    budget = budget_of(3 * LARGE)
    budget.hold("192.0.2.7", LARGE)

    with pytest.raises(Overloaded) as error:
        await read(http_scope(), pieces(b"a" * LARGE, b"a" * LARGE, b"a"), budget)

    assert int(error.value.headers["Retry-After"]) >= 1
    assert budget.used == LARGE


async def test_a_body_over_the_limit_of_its_resource_is_too_large() -> None:
    budget = budget_of()
    whole = b"a" * LARGE

    assert await read(http_scope(), pieces(whole), budget, LARGE) == whole
    with pytest.raises(TooLarge, match=f"has {LARGE + 1} bytes or more and at most {LARGE} "):
        await read(http_scope(content_length=str(LARGE + 1)), never, budget, LARGE)
    with pytest.raises(TooLarge):  # unannounced: refused where it goes over
        await read(http_scope(), pieces(whole, b"a", is_whole=False), budget, LARGE)
    assert budget.used == 0


async def test_a_client_that_leaves_gives_its_budget_back() -> None:
    budget = budget_of()

    with pytest.raises(DisconnectError):
        await read(http_scope(), pieces(b"a" * LARGE, is_whole=False), budget)

    assert budget.used == 0
