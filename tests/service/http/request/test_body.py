"""The body of a request is received within its limits."""

import asyncio

import numpy as np
import pytest
from starlette.types import Message

from elmo_serve.errors import DeadlineExceeded, Overloaded, TooLarge
from elmo_serve.http.request.body import SMALL_BODY_BYTES, Body, ReceivingBudget, read
from elmo_serve.http.request.wait import DisconnectError
from tests.support.asgi import http_scope, pieces

LARGE = SMALL_BODY_BYTES + 1


async def never() -> Message:
    """Wait for a piece that does not come."""
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_body_in_pieces_is_whole() -> None:
    budget = ReceivingBudget(1 << 20)

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
    budget = ReceivingBudget(1 << 20)

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
    budget = ReceivingBudget(0)

    assert await read(http_scope(), pieces(b"a" * SMALL_BODY_BYTES), budget, 60) == (
        b"a" * SMALL_BODY_BYTES
    )


async def test_a_body_that_does_not_fit_now_is_asked_to_come_again() -> None:
    budget = ReceivingBudget(3 * LARGE)
    budget.reserve(LARGE)

    with pytest.raises(Overloaded, match="ELMO_MAX_RECEIVING_BYTES") as error:
        await read(http_scope(content_length=str(2 * LARGE + 1)), pieces(b""), budget, 60)
    assert error.value.headers["Retry-After"] == "1"
    with pytest.raises(Overloaded):  # unannounced: refused where it goes over
        await read(http_scope(), pieces(b"a" * LARGE, b"a" * LARGE, b"a"), budget, 60)
    assert budget.used == LARGE


async def test_a_body_that_would_never_fit_is_too_large() -> None:
    with pytest.raises(TooLarge, match=f"at most {LARGE} are received at once"):
        await read(http_scope(content_length=str(LARGE + 1)), pieces(), ReceivingBudget(LARGE), 60)


async def test_a_client_that_leaves_gives_its_budget_back() -> None:
    budget = ReceivingBudget(1 << 20)

    with pytest.raises(DisconnectError):
        await read(http_scope(), pieces(b"a" * LARGE, is_whole=False), budget, 60)

    assert budget.used == 0


async def test_a_body_that_takes_too_long_is_given_up() -> None:
    budget = ReceivingBudget(1 << 20)

    with pytest.raises(DeadlineExceeded, match=r"within 0\.01 s"):
        await read(http_scope(content_length=str(LARGE)), never, budget, 0.01)

    assert budget.used == 0
