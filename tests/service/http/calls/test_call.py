"""A large body takes the same way as a small one, through other processes."""

import threading

import pytest
from starlette.requests import Request

from elmo_serve.errors import DeadlineExceeded
from elmo_serve.http.calls.call import EmbeddingCall
from tests.support.asgi import http_scope
from tests.support.in_process import in_process


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
