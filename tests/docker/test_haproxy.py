"""HAProxy before replicas: no request fails while replicas restart, are killed, or hang."""

import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from elmo_serve.http.app import create_app
from elmo_serve.http.state import assemble
from elmo_serve.settings import Settings
from tests.support.gated_server import close_gate, gated, open_gate
from tests.support.replicas import CLIENTS, FOLDER, Replica, loaded, proxied
from tests.support.servers import SMALL, Running, running

CONFIGURATION = (FOLDER / "haproxy.cfg").read_text()

SMALL_BODY = {"sentences": [["small"]], "layers": "top"}

needs_haproxy = pytest.mark.skipif(
    shutil.which("haproxy") is None, reason="HAProxy is not installed (Debian's package haproxy)"
)


@needs_haproxy
@pytest.mark.scale
def test_restarts_and_kills_of_each_replica_under_load_fail_no_request(tmp_path: Path) -> None:
    """The next replica ends once the proxy sends requests to the last one again."""
    with loaded(tmp_path, 3) as (replicas, load):
        for end in (Replica.stop, Replica.kill):
            for replica in replicas:
                end(replica)
                load.until_answered(5 * CLIENTS)
                replica.start()
                replica.until_asked(5 * CLIENTS)


@needs_haproxy
@pytest.mark.long
def test_a_hung_replica_delays_the_requests_that_it_has_and_no_other(tmp_path: Path) -> None:
    with loaded(tmp_path, 2) as (replicas, load):
        hung = replicas[0].server
        assert hung is not None
        hung.process.send_signal(signal.SIGSTOP)
        try:
            # By least connections at most half of the clients wait for it, and 75 s at most.
            load.until_answered(10 * CLIENTS)
        finally:
            hung.process.send_signal(signal.SIGCONT)
        load.until_answered(20)


@contextmanager
def gated_pair(folder: Path, **settings: float) -> Iterator[tuple[str, list[Running]]]:
    """Run two servers behind the proxy, with open gates."""
    with (
        gated(folder / "0", tasks=folder / "tasks", **settings) as one,
        gated(folder / "1", tasks=folder / "tasks", **settings) as two,
        proxied(folder, [int(each.url.rpartition(":")[2]) for each in (one, two)]) as url,
    ):
        yield url, [one, two]


def killed_under(folder: Path, body: dict[str, Any]) -> tuple[httpx.Response, httpx.Response]:
    """Kill the replica that has a request.

    Return the response to this request, and the one when it is sent again.
    """
    with gated_pair(folder) as (url, replicas):
        for replica in replicas:
            close_gate(replica)
        answers: list[httpx.Response] = []
        sender = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{url}/embed", json=body, timeout=120))
        )
        sender.start()

        def holders() -> list[Running]:
            return [each for each in replicas if each.metric("elmo_answer_bytes") > 0]

        replicas[0].until(lambda: bool(holders()))
        (holder,) = holders()
        (other,) = (each for each in replicas if each is not holder)
        os.kill(holder.pid, signal.SIGKILL)
        holder.process.wait()
        open_gate(other)
        sender.join()
        return answers[0], httpx.post(f"{url}/embed", json=body, timeout=120)


@needs_haproxy
@pytest.mark.long
def test_no_request_is_refused_by_a_replica_that_drains(tmp_path: Path) -> None:
    settings = {"drain_timeout_seconds": 600, "request_timeout_seconds": 600}
    with gated_pair(tmp_path, **settings) as (url, (draining, _)):
        close_gate(draining)
        held = threading.Thread(
            target=lambda: httpx.post(f"{draining.url}/embed", json=SMALL_BODY, timeout=600)
        )
        held.start()
        draining.until(lambda: draining.metric("elmo_answer_bytes") > 0)
        draining.process.send_signal(signal.SIGTERM)
        draining.until(lambda: httpx.get(f"{draining.url}/health/ready").status_code == 503)

        # The proxy may not know it yet: its checks are 1 s apart.
        with httpx.Client(base_url=url, timeout=60) as client:
            statuses = {client.post("/embed", json=SMALL_BODY).status_code for _ in range(500)}

        assert statuses == {200}
        open_gate(draining)
        held.join()


@needs_haproxy
@pytest.mark.long
def test_a_request_that_fits_the_buffer_is_sent_to_another_replica(tmp_path: Path) -> None:
    answer, again = killed_under(tmp_path, SMALL_BODY)

    assert answer.status_code == again.status_code == 200
    assert answer.json() == again.json()


@needs_haproxy
@pytest.mark.long
def test_a_request_over_the_buffer_fails_and_may_be_sent_again(tmp_path: Path) -> None:
    body = {"sentences": [["long" * 8] * 100] * 100, "layers": "top"}
    (buffer_bytes,) = re.findall(r"tune.bufsize (\d+)\n", CONFIGURATION)
    assert len(str(body)) > int(buffer_bytes)

    answer, again = killed_under(tmp_path, body)

    assert answer.status_code in (502, 503)
    assert again.status_code == 200
    assert len(again.json()["embeddings"]) == 100


@needs_haproxy
@pytest.mark.long
def test_slow_clients_are_told_so_and_never_reach_a_replica(tmp_path: Path) -> None:
    config = tmp_path / "haproxy.cfg"
    assert "timeout http-request 30s\n" in CONFIGURATION
    config.write_text(CONFIGURATION.replace("timeout http-request 30s", "timeout http-request 5s"))
    head = b"POST /embed HTTP/1.1\r\nHost: elmo\r\n"
    body = b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    with (
        running(tmp_path / "0", model=SMALL, tasks=tmp_path / "tasks") as server,
        proxied(tmp_path, [int(server.url.rpartition(":")[2])], config) as url,
        ExitStack() as stack,
    ):
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        slow = [stack.enter_context(socket.create_connection(address, 60)) for _ in range(2)]
        for connection, sent in zip(slow, (head, head + body), strict=True):
            connection.sendall(sent)
        assert httpx.post(f"{url}/embed", json=SMALL_BODY, timeout=60).status_code == 200

        for connection in slow:
            assert connection.makefile("rb").read().startswith(b"HTTP/1.1 408 ")
        assert server.metric("elmo_http_requests_total", method="POST") == 1


@needs_haproxy
@pytest.mark.long
def test_clients_without_keys_behind_the_proxy_share_a_whole_budget(tmp_path: Path) -> None:
    """They have one address, and are one client: half the budget would be too little for all."""
    limit = 1_000
    asked: list[int] = []
    threads: list[threading.Thread] = []
    with (
        gated(tmp_path / "0", tasks=tmp_path / "tasks", max_answer_bytes=limit) as server,
        proxied(tmp_path, [int(server.url.rpartition(":")[2])]) as url,
    ):

        def used() -> float:
            return server.metric("elmo_answer_bytes")

        def begin(address: str, local_address: str | None = None) -> None:
            def ask() -> None:
                with httpx.Client(transport=httpx.HTTPTransport(local_address=local_address)) as c:
                    answer = c.post(f"{address}/embed", json=SMALL_BODY, timeout=120)
                    asked.append(answer.status_code)

            before = used()
            threads.append(threading.Thread(target=ask))
            threads[-1].start()
            server.until(lambda: used() > before)

        close_gate(server)
        try:
            begin(url)
            size = used()
            while used() + size <= limit:
                begin(url)
            begin(server.url, "127.0.0.2")
            refused = httpx.post(f"{url}/embed", json=SMALL_BODY, timeout=120)
            assert refused.status_code in (429, 503)
            assert used() > limit
        finally:
            open_gate(server)
            for thread in threads:
                thread.join()
    assert set(asked) == {200}


@needs_haproxy
def test_the_configuration_of_compose_is_valid() -> None:
    files = ["-f", str(FOLDER / "haproxy.cfg"), "-f", str(FOLDER / "compose.cfg")]
    checked = subprocess.run(["haproxy", "-c", *files], check=False, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr + checked.stdout
    assert "[WARNING]" not in checked.stderr


def test_every_request_for_vectors_may_be_repeated() -> None:
    lines = re.findall(r"acl is_repeatable path(_beg)? (.+)", CONFIGURATION)
    whole = {path for prefix, paths in lines if not prefix for path in paths.split()}
    starts = tuple(path for prefix, paths in lines if prefix for path in paths.split())
    document = create_app(assemble(Settings(model=str(SMALL)))).openapi()
    posts = {path for path, methods in document["paths"].items() if "post" in methods}

    assert not {path for path in posts if path not in whole and not path.startswith(starts)}
