"""A large body takes the same way as a small one, through other processes."""

import threading
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from elmo_serve.errors import DeadlineExceeded
from elmo_serve.http.calls.call import EmbeddingCall
from tests.support.asgi import http_scope
from tests.support.in_process import in_process

SENTENCES: list[Any] = [
    "The bank of the river .",
    ["The", "bank", "lends", "money", "."],
    "It rains today in the garden .",
    ["It", "rains"],
]


@pytest.mark.parametrize("place", [0, 700])
def test_a_fault_of_a_large_body_has_its_place(client: httpx.Client, place: int) -> None:
    many = [*SENTENCES * 300]
    many[place] = " "

    answer = client.post("/v1/embeddings", json={"input": many})

    assert answer.status_code == 400
    assert f"/input/{place}: holds no token" in answer.json()["error"]["message"]
    many[place] = 3
    answer = client.post("/v1/embeddings", json={"input": many})
    assert answer.json()["error"]["message"].startswith("/input")


async def test_work_of_a_request_in_a_thread_ends_with_its_time() -> None:
    """The cosines of a request came long after its `X-Request-Timeout`."""
    async with in_process() as serving:
        scope = http_scope("/similarity", X_Request_Timeout="0.01")
        never = threading.Event()
        try:
            with pytest.raises(DeadlineExceeded, match=r"within 0\.01 s, but the response was not"):
                async with EmbeddingCall(Request({**scope, "app": serving.app})) as call:
                    await call.in_thread(never.wait)
        finally:
            never.set()
