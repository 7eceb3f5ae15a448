"""Errors of a server that is full, and HEAD."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from elmo_serve.errors import TYPE_PREFIX
from tests.support.engines import until
from tests.support.errors import ERRORS
from tests.support.in_process import InProcess, in_process

STATUS = {error.slug: error.status for error in ERRORS}


def problem(response: httpx.Response, slug: str) -> dict[str, Any]:
    """Check the kind of an error, and return its members."""
    members: dict[str, Any] = response.json()
    assert members["type"] == TYPE_PREFIX + slug, members
    assert response.status_code == members["status"] == STATUS[slug]
    return members


@pytest.mark.parametrize(
    "path", ["/tasks", "/info", "/health/live", "/health/ready", "/metrics", "/openapi.json"]
)
def test_head_answers_like_get_without_a_body(client: httpx.Client, path: str) -> None:
    got, headed = client.get(path), client.head(path)

    assert headed.status_code == got.status_code == 200
    assert headed.content == b""
    assert headed.headers["content-type"] == got.headers["content-type"]


@asynccontextmanager
async def held(serving: InProcess, sentences: int, **headers: str) -> AsyncIterator[None]:
    """Hold a request of one-token sentences behind a closed gate, and answer it in the end."""
    bulk = {"sentences": [[f"{index}"] for index in range(sentences)], "pooling": "mean"}
    serving.worker.close()
    held = asyncio.ensure_future(serving.client.post("/embed", json=bulk, headers=headers))
    await until(lambda: serving.server.engine.admission.outstanding > 0)
    yield
    serving.worker.open()
    assert (await held).status_code == 200


async def test_a_full_queue_is_503_and_says_when_to_come_again() -> None:
    """Whole or not at all: the second request does not fit beside the first, the third does."""
    bulk = {"sentences": [[f"{index}"] for index in range(1_800)], "pooling": "mean"}
    small = {"sentences": [["small"]]}
    async with in_process(max_queue_tokens=6_000, request_timeout_seconds=86_400) as serving:
        async with held(serving, 1_800):
            second = await serving.client.post("/embed", json=bulk)
            third = asyncio.ensure_future(serving.client.post("/embed", json=small))

            members = problem(second, "overloaded")
            assert "6000 tokens" in members["detail"]
            assert 1 <= int(second.headers["retry-after"]) <= 60
        assert (await third).status_code == 200


async def test_a_client_over_its_share_is_429_and_another_is_answered() -> None:
    """A client is a key. The first call is the whole share, so nothing fits beside it."""
    limits: dict[str, Any] = {
        "max_client_tokens": 3_000,
        "request_timeout_seconds": 86_400,
        "api_keys": "mine,yours",
    }
    small = {"sentences": [["small"]]}
    mine, yours = ({"Authorization": f"Bearer {key}"} for key in ("mine", "yours"))
    async with in_process(**limits) as serving:
        async with held(serving, 1_000, **mine):
            second = await serving.client.post("/embed", json=small, headers=mine)
            third = asyncio.ensure_future(serving.client.post("/embed", json=small, headers=yours))

            members = problem(second, "client-over-share")
            assert second.status_code == 429
            assert "3000 of its 3000 tokens" in members["detail"]
            assert int(second.headers["retry-after"]) >= 1
        assert (await third).status_code == 200
