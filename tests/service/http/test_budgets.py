"""Bytes of bodies and answers are counted while they are in memory, for each client."""

import asyncio
from typing import Any, Final

import httpx

from elmo_serve.http.body import SMALL_BODY_BYTES
from tests.support.engines import until
from tests.support.in_process import InProcess, SlowReader, in_process

LIMIT: Final = 10_000
ASKS: Final = {"sentences": [["a"]], "layers": "top"}
LARGE: Final[dict[str, Any]] = {"sentences": [["a" * SMALL_BODY_BYTES]], "layers": "top"}


def client_at(serving: InProcess, address: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(serving.app, client=(address, 1))
    return httpx.AsyncClient(transport=transport, base_url="http://test")


async def test_a_client_that_uses_all_answers_keeps_no_other_out() -> None:
    async with in_process(max_answer_bytes=LIMIT) as serving:
        held = serving.server.engine.answers.hold("192.0.2.1", LIMIT)

        async with client_at(serving, "192.0.2.1") as greedy, client_at(serving, "::2") as other:
            refused = await greedy.post("/embed", json=ASKS)
            answer = await other.post("/embed", json=ASKS)

        assert (refused.status_code, answer.status_code) == (503, 200)
        assert int(refused.headers["retry-after"]) >= 1
        assert serving.server.engine.answers.used == LIMIT
        held.release()


async def test_a_client_alone_may_use_all_tokens_and_half_while_others_ask() -> None:
    bulk = {"sentences": [[f"{index}"] for index in range(1_000)], "pooling": "mean"}
    mine, yours = ({"Authorization": f"Bearer {key}"} for key in ("mine", "yours"))
    async with in_process(
        is_open=False,
        api_keys="mine,yours",
        max_queue_tokens=6_000,
        request_timeout_seconds=86_400,
    ) as serving:
        post, admission = serving.client.post, serving.server.engine.admission
        held = []
        for key, tokens in ((mine, 3_000), (mine, 6_000), (yours, 9_000)):
            held.append(asyncio.ensure_future(post("/embed", json=bulk, headers=key)))
            await until(lambda tokens=tokens: admission.outstanding == tokens)  # type: ignore[misc]
        refused = await post("/embed", json=bulk, headers=mine)
        held.append(asyncio.ensure_future(post("/embed", json=ASKS, headers=mine)))
        await until(lambda: admission.outstanding == 9_003)  # it is interactive
        serving.worker.open()

        assert refused.status_code == 429
        assert "6000 of 6000 tokens" in refused.json()["detail"]
        assert int(refused.headers["retry-after"]) >= 1
        assert [(await each).status_code for each in held] == [200] * 4


async def test_readers_that_hold_all_bytes_refuse_no_small_request() -> None:
    """Two clients read large answers slowly; a third one's requests for one token were all 503."""
    async with in_process(max_answer_bytes=1 << 20) as serving:
        answers = serving.server.engine.answers
        held = [answers.hold(f"192.0.2.{number}", 1 << 19) for number in (1, 2)]
        large = {"sentences": [["a"] * 100], "layers": "all"}

        async with client_at(serving, "::3") as third:
            small = [(await third.post("/embed", json=ASKS)).status_code for _ in range(11)]
            refused = await third.post("/embed", json=large)

        assert small == [200] * 11
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        for each in held:
            each.release()


async def test_a_large_body_counts_until_its_vectors_are_computed() -> None:
    """Parsed bodies in the queue were in no budget: memory grew with the connections."""
    async with in_process(is_open=False) as serving:
        asked = asyncio.ensure_future(serving.client.post("/embed", json=LARGE))
        await until(lambda: bool(serving.worker.batches))
        assert serving.server.bodies.used > SMALL_BODY_BYTES
        serving.worker.open()

        assert (await asked).status_code == 200
        assert serving.server.bodies.used == 0


async def test_the_answer_of_every_route_counts_until_it_is_sent() -> None:
    bodies: dict[str, dict[str, Any]] = {
        "/embed": ASKS,
        "/v1/embeddings": {"input": "a b"},
        "/tokenize": {"text": ["a b"]},
    }
    async with in_process() as serving:
        answers = serving.server.engine.answers
        for route, members in bodies.items():
            reader = SlowReader(serving, route, members)
            await reader.has_begun.wait()
            used = answers.used
            reader.gate.set()
            await reader.request
            assert used > 0, route
            assert len(reader.body) > 0
            assert answers.used == 0
