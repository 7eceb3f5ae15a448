"""A whole load test against a server that follows a script."""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler

from elmo_serve.load_test.checker import Checker
from elmo_serve.load_test.run import Loads, run
from elmo_serve.load_test.workload import Body
from elmo_serve.output import Output
from tests.support.scripted_server import hang_up, scripted_server

SAFE = "application/vnd.safetensors"
BODIES = [Body(b'{"sentences": [["%d"]]}' % number, ([str(number)],), 1) for number in range(9)]


def checker() -> Checker:
    return Checker(SAFE, Output(layers=(0, 1, 2), stacked=True), 4, 1e-5)


def test_each_load_is_a_phase() -> None:
    steps: list[str] = []
    loads = Loads(clients=(1, 2), rates=(40.0,), duration=0.3, warm_up=0.0)
    with scripted_server() as server:
        measured = run(server.url, {}, loads, BODIES, checker(), SAFE, steps.append)

    assert steps == ["1 client", "2 clients", "40 requests/s"]
    assert [tally.name for tally in measured.tallies] == steps
    assert [tally.rate for tally in measured.tallies] == [None, None, 40.0]
    assert not measured.is_bad and not measured.is_interrupted
    found = json.loads(json.dumps(measured.as_json()))
    assert len(found["phases"]) == 3 and found["saturation"] is None


def test_a_search_begins_with_what_one_client_is_answered() -> None:
    """The server answers one request and no other: no rate is followed, and the search ends."""
    loads = Loads(find_saturation=True, duration=0.05, warm_up=0.0, timeout=1.0)
    with scripted_server() as server:
        server.script = [hang_up] * 100_000
        measured = run(server.url, {}, loads, BODIES, checker(), SAFE)

    first, second, *_ = measured.tallies
    assert first.name == "1 client" and second.rate == 1 / loads.duration
    assert measured.saturation is not None and measured.saturation.followed is None
    assert measured.is_bad


def test_the_time_of_a_phase_begins_after_the_metrics_were_read() -> None:
    """A server that is slow with its metrics is measured for the whole duration all the same."""
    loads = Loads(clients=(1,), duration=0.2, warm_up=0.0)
    with scripted_server() as server:
        info, until = server.info, time.monotonic() + 0.5

        def late(handler: BaseHTTPRequestHandler, body: bytes) -> None:
            while time.monotonic() < until:
                time.sleep(0.01)
            info(handler, body)

        server.info = late
        measured = run(server.url, {}, loads, BODIES, checker(), SAFE)

    assert measured.tallies[0].sent > 0
