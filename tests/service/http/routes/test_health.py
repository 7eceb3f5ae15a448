"""The probes: what they say is what is true, from the first answer to the last."""

import os
import signal
from pathlib import Path
from shutil import copytree

import httpx

from tests.support.processes import children
from tests.support.servers import SMALL, Running, running


def status(server: Running, probe: str) -> int:
    return httpx.get(f"{server.url}/health/{probe}").status_code


def test_a_server_that_answers_is_live_and_ready(client: httpx.Client) -> None:
    assert client.get("/health/live").json() == {"status": "live"}
    for path in ("/health/ready", "/health"):
        assert client.get(path).json() == {"status": "ready"}
        assert client.head(path).status_code == 200


def test_while_the_model_loads_it_is_live_and_not_ready(tmp_path: Path) -> None:
    gate = tmp_path / "slow.safetensors"
    os.mkfifo(gate)  # whose reader waits for a writer

    with running(tmp_path, until_ready=False, model=gate) as server:
        ready = httpx.get(server.url + "/health/ready")
        assert ready.status_code == 503
        assert "loading" in ready.json()["detail"]
        assert int(ready.headers["retry-after"]) >= 1
        assert httpx.get(server.url + "/health").json()["detail"] == ready.json()["detail"]
        assert status(server, "live") == 200
        for path in ("/info", "/tasks"):
            answer = httpx.get(server.url + path)
            assert answer.status_code == 503
            assert "loading" in answer.json()["detail"]
        assert httpx.post(server.url + "/embed", json={"sentences": []}).status_code == 503
        for path in ("/metrics", "/openapi.json", "/docs"):
            assert httpx.get(server.url + path).status_code == 200


def test_without_workers_it_is_not_ready_until_one_is_back(tmp_path: Path) -> None:
    model, away = copytree(SMALL, tmp_path / "model"), tmp_path / "away"
    with running(tmp_path, model=model) as server:
        (worker,) = children(server.pid)["worker"]
        model.rename(away)  # no other worker starts meanwhile
        os.kill(worker, signal.SIGKILL)
        server.until(lambda: status(server, "ready") == 503)
        assert "lost its workers" in httpx.get(server.url + "/health/ready").json()["detail"]
        assert status(server, "live") == 200
        away.rename(model)
        server.until(lambda: status(server, "ready") == 200)
        answer = httpx.post(server.url + "/embed", json={"sentences": [["back"]]})
        assert answer.status_code == 200
        assert server.metric("elmo_worker_restarts_total", device="cpu") >= 1
