"""A whole load test against a server that follows a script."""

from __future__ import annotations

import json

from elmo_serve.load_test.report import as_json
from elmo_serve.load_test.run import LoadTest
from elmo_serve.load_test.sender import Request
from tests.support.scripted_server import scripted_server

SAFE = "application/vnd.safetensors"
REQUESTS = [
    Request(b'{"sentences": [["%d"]]}' % number, 1, SAFE, lambda _: 0.0) for number in range(9)
]


def test_each_load_is_a_phase() -> None:
    steps: list[str] = []
    with scripted_server() as server:
        test = LoadTest(clients=(1, 2), rates=(40.0,), duration=0.2, warm_up=0.0, timeout=7)
        phases = test.run(server.url, REQUESTS, steps.append)

    assert steps == ["1 client", "2 clients", "40 requests/s"]
    assert [phase.name for phase in phases] == steps
    assert [phase.rate for phase in phases] == [None, None, 40.0]
    assert all(phase.compared > 0 for phase in phases)
    assert {headers["X-Request-Timeout"] for _, headers in server.requests} == {"7"}
    found = json.loads(json.dumps(as_json(phases)))
    assert len(found["phases"]) == 3 and not found["is_interrupted"]
