"""A server that stops answers what it has admitted, to the last byte, within the drain time."""

import asyncio
from typing import Any, Final

import httpx
import orjson
import pytest

from tests.support.engines import turns, until
from tests.support.in_process import InProcess, SlowReader, in_process

BODIES: Final[dict[str, dict[str, Any]]] = {
    "/embed": {"sentences": [["a"]]},
    "/v1/embeddings": {"input": [["a", "b"]]},
}


async def admitted(serving: InProcess, count: int = 1) -> None:
    await until(lambda: serving.server.engine.requests == count)


async def test_a_drain_answers_admitted_requests_of_every_route() -> None:
    async with in_process(drain_timeout_seconds=600) as serving:
        serving.worker.close()
        asked = [
            asyncio.ensure_future(serving.client.post(route, json=body))
            for route, body in BODIES.items()
        ]
        await admitted(serving, len(asked))
        drain = asyncio.ensure_future(serving.server.drain())
        await until(lambda: serving.server.readiness.public_reason is not None)
        refused = await serving.client.post("/embed", json=BODIES["/embed"])
        serving.worker.open()
        answers: list[httpx.Response] = await asyncio.gather(*asked)

        assert await drain
        assert [answer.status_code for answer in answers] == [200] * len(BODIES)
        assert refused.status_code == 503
        assert "draining" in refused.json()["detail"]
        assert int(refused.headers["retry-after"]) >= 1
        assert (await serving.client.get("/health/live")).status_code == 200
        not_ready = await serving.client.get("/health/ready")
        assert not_ready.status_code == 503
        assert "draining" in not_ready.text


@pytest.mark.parametrize("route", ["/embed", "/v1/embeddings"])
async def test_a_drain_waits_for_clients_that_still_read(route: str) -> None:
    async with in_process(drain_timeout_seconds=600) as serving:
        reader = SlowReader(serving, route, BODIES[route])
        await until(lambda: bool(serving.worker.batches))
        await until(lambda: serving.server.engine.requests == 0)
        await turns()
        drain = asyncio.ensure_future(serving.server.drain())
        await turns()
        assert not drain.done()
        reader.gate.set()

        assert await drain
        await reader.request
        assert orjson.loads(reader.body)


async def test_a_drain_gives_up_on_clients_that_do_not_read() -> None:
    async with in_process(drain_timeout_seconds=0) as serving:
        reader = SlowReader(serving, "/embed", BODIES["/embed"])
        await until(lambda: bool(serving.worker.batches))
        await until(lambda: serving.server.engine.requests == 0)

        assert not await serving.server.drain()
        reader.gate.set()
        await reader.request
