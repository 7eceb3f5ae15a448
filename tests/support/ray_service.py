"""The service on Ray Serve on a small cluster, and clients that repeat and check their requests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import httpx
import ray
from ray import serve
from starlette.types import ASGIApp, Message, Receive, Scope
from starlette.types import Send as AsgiSend

from benchmarks.load import Phase, Send
from elmo_client import AsyncClient, ElmoError
from elmo_serve.ray_serve import Embeddings, deployment
from elmo_serve.settings.text import from_strings
from tests.support.answers import Answers, sentences
from tests.support.replicas import Load
from tests.support.servers import free_port, until

SENTENCES = sentences(None, 240, random.Random(5))
GROUP = 12  # sentences of one request


class HeldReplica(Embeddings):
    """A replica that keeps its responses to itself once it is told so by `hold`."""

    def __serve_build_asgi_app__(self) -> ASGIApp:
        app = super().__serve_build_asgi_app__()
        tasks = self._server.settings.tasks
        assert tasks is not None, "`served` sets it"
        node = ray.get_runtime_context().get_node_id()

        async def held(scope: Scope, receive: Receive, send: AsgiSend) -> None:
            async def send_unless_held(message: Message) -> None:
                if (tasks.parent / node).exists():
                    (tasks.parent / "held").touch()
                    await asyncio.Event().wait()
                await send(message)

            await app(scope, receive, send_unless_held)

        return held


def hold(folder: Path, node_id: str) -> None:
    """Let the replica of a node send no response; wait until it has one that it does not send."""
    (folder / node_id).touch()
    until((folder / "held").exists)


@contextmanager
def proxy() -> Iterator[str]:
    """Start Ray Serve with one proxy, on the head of the cluster, and return its address."""
    port = free_port()
    with suppress(TimeoutError):  # Ray waits for 60 s; `served` waits for the proxy as well
        serve.start(http_options={"host": "127.0.0.1", "port": port}, proxy_location="HeadOnly")
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        serve.shutdown()


@contextmanager
def served(
    address: str,
    folder: Path,
    route_prefix: str = "/",
    num_replicas: int = 1,
    **arguments: object,
) -> Iterator[str]:
    """Serve behind the proxy, and return the URL; Ray waits until each replica is ready."""
    settings = {"tasks": folder / "tasks", **arguments}
    (folder / "tasks").mkdir(parents=True, exist_ok=True)
    wanted = from_strings({name: str(value) for name, value in settings.items()})
    replicas = deployment(wanted).options(serve.ingress()(HeldReplica), num_replicas=num_replicas)
    url = f"{address}{route_prefix.rstrip('/')}"
    try:
        serve.run(replicas.bind(wanted), name="elmo", route_prefix=route_prefix)
        # Ray's proxy learns of the application a moment later.
        until(lambda: _is_ready(url))
        yield url
    finally:
        serve.delete("elmo")


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health/ready", timeout=30).status_code == 200
    except httpx.TransportError:
        return False


class RepeatingLoad(Load):
    """Calls of elmo-client, which repeats a request whose replica was lost."""

    def __init__(self, url: str, answers: Answers) -> None:
        super().__init__(url, iter(()))
        self._answers = answers

    @asynccontextmanager
    async def _sender(self, clients: int) -> AsyncIterator[Send]:
        source = random.Random(1)
        async with AsyncClient(
            self._url, in_flight=clients, timeout_seconds=300, patience_seconds=300
        ) as client:

            async def send(phase: Phase, _due: float) -> float:
                indices = source.sample(range(len(SENTENCES)), GROUP)
                try:
                    found = await client.embed([SENTENCES[index] for index in indices])
                except ElmoError as error:
                    phase.lost += 1
                    phase.faults.append(f"lost: {error}")
                    return 0.0
                phase.answered += 1
                pairs = zip(found, indices, strict=True)
                if any(self._answers.difference(*pair, {}) > 1 for pair in pairs):
                    phase.wrong += 1
                    phase.faults.append(f"wrong: {indices}")
                return 0.0

            yield send
