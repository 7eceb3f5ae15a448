"""The body of a request is received within its limits."""

import asyncio

import numpy as np
import pytest
from starlette.types import Message, Receive, Scope

from elmo_serve.errors import DeadlineExceeded, Overloaded, TooLarge
from elmo_serve.http.calls.body import (
    NOT_RECEIVED,
    SMALL_BODY_BYTES,
    Body,
    DisconnectError,
    RequestWaits,
)
from elmo_serve.scheduling.quotas import Budget
from tests.support.asgi import http_scope, pieces

LARGE = SMALL_BODY_BYTES + 1
MOST = 1 << 20


async def read(scope: Scope, receive: Receive, budget: Budget, most_bytes: int = MOST) -> bytes:
    with Body(scope, budget, most_bytes) as body:
        await body.receive(receive)
        return body.content


async def never() -> Message:
    """Wait for a piece that does not come."""
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_body_in_pieces_is_whole() -> None:
    budget = Budget(1 << 20)

    with Body(http_scope(), budget) as body:
        await body.receive(pieces(b"a" * LARGE, b"", b"bc"))
        assert body.size == LARGE + 2
        assert body.content == b"a" * LARGE + b"bc"
        assert budget.used == LARGE + 2
        memory = np.zeros(LARGE + 2, np.uint8)
        body.move_to(memory)

    assert memory.tobytes() == b"a" * LARGE + b"bc"
    assert budget.used == 0


async def test_an_announced_body_is_counted_before_its_first_byte_and_once() -> None:
    budget = Budget(1 << 20)

    with Body(http_scope(content_length=str(3 * LARGE)), budget) as body:
        receiving = asyncio.create_task(body.receive(never))
        await asyncio.sleep(0)
        assert budget.used == 3 * LARGE
        receiving.cancel()
    assert budget.used == 0

    with Body(http_scope(content_length=str(3 * LARGE)), budget) as body:
        await body.receive(pieces(b"a" * LARGE, b"a" * LARGE, b"a" * LARGE))
        assert budget.used == 3 * LARGE


async def test_small_bodies_are_not_counted() -> None:
    body = b"a" * SMALL_BODY_BYTES

    assert await read(http_scope(), pieces(body), Budget(0)) == body


async def test_a_body_that_does_not_fit_now_is_asked_to_come_again() -> None:
    budget = Budget(3 * LARGE)
    budget.hold(LARGE)

    with pytest.raises(Overloaded, match="ELMO_MAX_RECEIVING_BYTES") as error:
        await read(http_scope(content_length=str(2 * LARGE + 1)), pieces(b""), budget)
    assert error.value.headers["Retry-After"] == "1"
    with pytest.raises(Overloaded):  # unannounced: refused where it goes over
        await read(http_scope(), pieces(b"a" * LARGE, b"a" * LARGE, b"a"), budget)
    assert budget.used == LARGE


async def test_a_body_that_would_never_fit_is_too_large() -> None:
    announced = http_scope(content_length=str(LARGE + 1))

    with pytest.raises(TooLarge, match=f"at most {LARGE} are received at once"):
        await read(announced, pieces(), Budget(LARGE))


async def test_a_body_over_the_limit_of_its_resource_is_too_large() -> None:
    budget = Budget(1 << 20)
    whole = b"a" * LARGE

    assert await read(http_scope(), pieces(whole), budget, LARGE) == whole
    with pytest.raises(TooLarge, match=f"has {LARGE + 1} bytes or more and at most {LARGE} "):
        await read(http_scope(content_length=str(LARGE + 1)), never, budget, LARGE)
    with pytest.raises(TooLarge):  # unannounced: refused where it goes over
        await read(http_scope(), pieces(whole, b"a", is_whole=False), budget, LARGE)
    assert budget.used == 0


async def test_a_client_that_leaves_gives_its_budget_back() -> None:
    budget = Budget(1 << 20)

    with pytest.raises(DisconnectError):
        await read(http_scope(), pieces(b"a" * LARGE, is_whole=False), budget)

    assert budget.used == 0


async def test_a_body_that_takes_too_long_is_given_up() -> None:
    budget = Budget(1 << 20)

    with pytest.raises(DeadlineExceeded, match=r"within 0\.01 s"), RequestWaits().begin() as wait:
        wait.limit(0.01, lambda: DeadlineExceeded(NOT_RECEIVED.format(0.01)))
        await read(http_scope(content_length=str(LARGE)), never, budget)

    assert budget.used == 0
