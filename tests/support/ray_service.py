"""The service on Ray Serve on a small cluster, and clients that compare each response."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import ray
from ray import serve

from elmo_serve.distributed.ray_serve import EMBEDDINGS, app
from elmo_serve.http.media_types import safetensors
from elmo_serve.load_test.sender import Request
from tests.support.answers import Answers, Asked, sentences
from tests.support.load import Load
from tests.support.ray_cluster import until
from tests.support.servers import SMALL, free_port

SENTENCES = sentences(None, 240, random.Random(5))
GROUP = 12  # sentences of one request
CLIENTS = 24


@contextmanager
def served(folder: Path, **arguments: object) -> Iterator[str]:
    """Serve on the cluster, and return the address once it is ready."""
    port = free_port()
    serve.start(http_options={"host": "127.0.0.1", "port": port}, proxy_location="HeadOnly")
    settings = {"model": SMALL, "tasks": folder / "tasks", **arguments}
    if "models" in settings:
        del settings["model"]
    serve.run(app({name: str(value) for name, value in settings.items()}), name="elmo")
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: httpx.get(f"{url}/health/ready", timeout=30).status_code == 200)
        yield url
    finally:
        serve.shutdown()


def running_replicas() -> int:
    states = serve.status().applications["elmo"].deployments[EMBEDDINGS].replica_states
    return int(states.get("RUNNING", 0))


def kill_replicas() -> None:
    """Kill all replicas of the engine; Ray starts others."""
    for actor in ray.util.list_named_actors(all_namespaces=True):
        if f"#{EMBEDDINGS}#" in actor["name"]:
            ray.kill(ray.get_actor(actor["name"], actor["namespace"]))


def load_on(url: str, answers: Answers) -> Load:
    """Return clients that send random sentences; a refusal is no fault."""
    source = random.Random(1)

    def requests() -> Iterator[Request]:
        while True:
            asked = Asked(tuple(source.sample(range(len(SENTENCES)), GROUP)), {})
            yield answers.request(asked, safetensors.ENCODER.media_type)

    return Load(url, requests(), may_be_refused=True)


def post(client: httpx.Client, indices: list[int], **options: object) -> httpx.Response:
    body = {"sentences": [SENTENCES[index] for index in indices], **options}
    return client.post("/embed", json=body, headers={"Accept": "application/vnd.safetensors"})
