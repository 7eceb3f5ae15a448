"""A replica, without Ray: its responses and paths, its health, its load, its settings."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo_serve.distributed.autoscaling import OUTSTANDING_TOKENS
from elmo_serve.distributed.replica import Replica, on_this_machine
from elmo_serve.http.media_types import safetensors
from elmo_serve.http.wiring import assemble
from elmo_serve.models.cache import DownloadError
from elmo_serve.settings import Settings
from elmo_serve.workers.devices import Hardware
from elmo_serve.workers.messages import LoadFailed, Ready
from tests.support.checkpoints import write_pair
from tests.support.engines import turns, until
from tests.support.gated_worker import INFO, GatedWorker
from tests.support.in_process import in_process
from tests.support.servers import SMALL

BODY = {"sentences": [["a", "b"], ["c"]]}
TOKENS = 2 + 2 + 1 + 2  # with the boundaries of each sentence


def proxied(app: ASGIApp) -> httpx.ASGITransport:
    """Return a transport to an application at `/pt`, whose messages Ray's proxy pickles."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_copy(message: Message) -> None:
            await send(pickle.loads(pickle.dumps(message)))

        await app(scope, receive, send_copy)

    return httpx.ASGITransport(wrapped, root_path="/pt")


async def test_paths_have_the_prefix_of_the_ray_application() -> None:
    async with (
        in_process(api_keys="secret", max_sentence_tokens=2_000) as found,
        httpx.AsyncClient(
            transport=proxied(Replica(found.server).application()), base_url="http://test/pt"
        ) as client,
    ):
        key = {"Authorization": "Bearer secret"}
        assert (await client.get("/health/ready")).status_code == 200  # open to all
        assert (await client.post("/embed", json=BODY)).status_code == 401
        response = await client.post(
            "/embed", json=BODY, headers={**key, "Accept": "application/vnd.safetensors"}
        )
        assert [len(each[0]) for each in safetensors.decode(response.content)] == [2, 1]
        large = {"sentences": [["a"] * 2_000]}  # 96 KB, which are not copied into one piece
        response = await client.post(
            "/embed", json=large, headers={**key, "Accept": "application/vnd.safetensors"}
        )
        assert len(safetensors.decode(response.content)) == 1
        wrong = await client.post("/v1/embeddings", json={}, headers=key)
        assert "error" in wrong.json()  # in the form of that path
        assert (await client.get("", headers=key)).status_code == 200


async def test_the_request_id_that_ray_adds_is_in_the_response_once() -> None:
    async with (
        in_process() as found,
        httpx.AsyncClient(
            transport=proxied(Replica(found.server).application()), base_url="http://test/pt"
        ) as client,
    ):
        assert "x-request-id" in (await client.get("/info")).headers
        response = await client.get("/info", headers={"X-Request-Id": "mine"})
        assert "x-request-id" not in response.headers  # Ray adds it


async def test_the_load_is_the_tokens_that_wait_or_run() -> None:
    async with in_process() as found:
        replica = Replica(found.server)
        assert replica.record_autoscaling_stats() == {OUTSTANDING_TOKENS: 0.0}

        found.worker.close()
        answer = asyncio.ensure_future(found.client.post("/embed", json=BODY))
        await until(lambda: bool(found.worker.queue))
        assert replica.record_autoscaling_stats() == {OUTSTANDING_TOKENS: TOKENS}

        found.worker.open()
        assert (await answer).status_code == 200
        assert replica.record_autoscaling_stats() == {OUTSTANDING_TOKENS: 0.0}


@asynccontextmanager
async def loading(**settings: object) -> AsyncIterator[tuple[Replica, list[GatedWorker]]]:
    """Start a replica with a worker for each model. No model is loaded yet."""
    workers: list[GatedWorker] = []

    def make(*_: object) -> GatedWorker:
        workers.append(GatedWorker(loads=False))
        return workers[-1]

    server = assemble(Settings.model_validate(settings), make, hardware=Hardware(0))
    server.engine.start()
    opening = asyncio.ensure_future(server.open())
    try:
        yield Replica(server), workers
    finally:
        opening.cancel()
        await server.close()


async def test_a_replica_is_healthy_once_its_models_are_loaded(tmp_path: Path) -> None:
    models = f"{SMALL},b={write_pair(tmp_path / 'b')}"
    async with loading(models=models, tasks=tmp_path) as (replica, workers):
        health = asyncio.ensure_future(replica.check_health())
        workers[0].report(Ready(INFO))
        await turns(20)
        assert not health.done(), "the second model is not loaded"

        workers[1].report(Ready(INFO))
        await health
        await replica.check_health()


async def test_a_replica_with_a_model_that_cannot_be_loaded_is_unhealthy(tmp_path: Path) -> None:
    models = f"{SMALL},b={write_pair(tmp_path / 'b')}"
    async with loading(models=models, tasks=tmp_path) as (replica, workers):
        workers[0].report(Ready(INFO))
        workers[1].report(LoadFailed("no weights"))
        workers[1].die("exited with status 0")

        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"^b: no weights$"):
                await replica.check_health()


async def test_a_replica_whose_task_folder_cannot_be_used_is_unhealthy(tmp_path: Path) -> None:
    (tmp_path / "tasks").write_text("a file")
    async with loading(model=str(SMALL), tasks=tmp_path / "tasks") as (replica, workers):
        workers[0].report(Ready(INFO))

        with pytest.raises(RuntimeError, match="tasks"):
            await replica.check_health()


def test_settings_are_completed_on_the_machine_of_the_replica(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("a 1 2\nb 3 4\n")
    given = Settings.model_validate({"word_vectors": words, "cache": tmp_path / "cache"})

    found = on_this_machine(given, cores=6)

    assert [(each.name, each.source) for each in found.specs] == [("english", "english")]
    assert found.word_vectors is not None and found.word_vectors.is_relative_to(tmp_path / "cache")
    assert (found.json_workers, found.text_workers) == (3, 3)
    assert on_this_machine(Settings(json_workers=1), cores=6).json_workers == 1
    assert on_this_machine(Settings(), cores=1).cache is not None


def test_a_published_model_that_cannot_be_had_is_an_error(tmp_path: Path) -> None:
    given = Settings.model_validate({"model": "original", "cache": tmp_path, "offline": True})

    with pytest.raises(DownloadError, match="ELMO_OFFLINE is set"):
        on_this_machine(given, cores=1)
