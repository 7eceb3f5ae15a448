"""Event loop latency: the longest turn of the server's event loop for each kind of request.

    python -m benchmarks.event_loop [--model FOLDER] [--repeat 3]

The server runs in this process, as `elmo serve` runs it; a client in another process sends the
requests. A timer of a millisecond on the loop measures how late it fires (wall: the delay of other
requests, which includes a busy machine and the interpreter lock) and the processor time of the
loop's thread meanwhile (cpu: the cost of the code itself). Without --model the network has the
original's width, 1024 x 3, and cells so small that the responses, not the network, are the work.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from benchmarks import machine
from elmo_serve.http.app import create_app
from elmo_serve.http.server import run
from elmo_serve.http.wiring import assemble
from elmo_serve.settings import Settings
from tests.support.checkpoints import write_pair

LIMIT_MS = 5.0
NPZ = {"Accept": "application/x-npz"}
FIRST = "the first request of each route"
Row = tuple[str, float, float]
SAFETENSORS = {"Accept": "application/vnd.safetensors"}


class Heartbeat:
    """A periodic timer on the loop that records the longest turn since it was last read."""

    def __init__(self, period: float = 0.001) -> None:
        self._loop = asyncio.get_running_loop()
        self._period = period
        self._late = self._busy = 0.0
        self._due, self._cpu = time.monotonic() + period, time.thread_time()
        self._loop.call_later(self._period, self._beat)

    def worst(self) -> tuple[float, float]:
        """Return the delay and the processor time of the longest turn in ms, and reset both."""
        found = self._late * 1e3, self._busy * 1e3
        self._late = self._busy = 0.0
        return found

    def _beat(self) -> None:
        now, cpu = time.monotonic(), time.thread_time()
        self._late = max(self._late, now - self._due)
        self._busy = max(self._busy, cpu - self._cpu)
        self._due, self._cpu = now + self._period, cpu
        self._loop.call_later(self._period, self._beat)


def words(count: int, start: int = 0) -> list[str]:
    """Return words, a few hundred distinct ones."""
    return [f"w{(start + index) % 397}" for index in range(count)]


def sentences(count: int, length: int) -> list[list[str]]:
    """Return distinct sentences."""
    return [[f"s{index}", *words(length - 1, index)] for index in range(count)]


def first(client: httpx.Client) -> None:
    while client.get("/health/ready").status_code != 200:
        time.sleep(0.1)
    for path in ("/health/live", "/info", "/tasks", "/tasks/x", "/metrics", "/openapi.json"):
        client.get(path)
    small_json(client)


def small(client: httpx.Client) -> None:
    for index in range(50):
        client.post("/embed", json={"sentences": sentences(4, 20)[index % 4 :]}, headers=NPZ)


def small_json(client: httpx.Client) -> None:
    for _ in range(50):
        client.post("/embed", json={"sentences": sentences(1, 20), "layers": "top"})


def large_json(client: httpx.Client) -> None:
    embed(client, sentences(40, 60), {})


def large_npz(client: httpx.Client) -> None:
    embed(client, sentences(40, 120), NPZ)


def large_safetensors(client: httpx.Client) -> None:
    embed(client, sentences(40, 120), SAFETENSORS)


def large_body(client: httpx.Client) -> None:
    body = [["x" * 2_000] * 40] * 104
    embed(client, body, NPZ, layers="top", pooling="mean")


def refused_body(client: httpx.Client) -> None:
    client.post("/embed", content=b'{"sentences":[[' + b"0," * (4 << 20) + b"0]]}")


def malformed(client: httpx.Client) -> None:
    for body in (
        b'{"sentences":[[' + b"0," * 8_000 + b"0]]}",
        b'{"sentences":[' + b"0," * 8_000 + b"0]}",
        b'{"sentences":[' + b"[]," * 5_400 + b"[],0]}",
        b'{"sentences":[],"layers":[' + b"-1," * 5_000 + b"0]}",
        b'{"sentences":[],' + b",".join(b'"%x":1' % i for i in range(1_900)) + b"}",
    ):
        client.post("/embed", content=body)


def many_npz(client: httpx.Client) -> None:
    embed(client, sentences(10_000, 2), NPZ, layers="top")


def many_safetensors(client: httpx.Client) -> None:
    embed(client, sentences(10_000, 2), SAFETENSORS, layers="top")


def many_json(client: httpx.Client) -> None:
    embed(client, sentences(10_000, 2), {}, layers="top", pooling="mean")


def many_empty(client: httpx.Client) -> None:
    embed(client, [[]] * 10_000, NPZ)
    embed(client, [[]] * 10_000, {})


def abandoned(client: httpx.Client) -> None:
    try:
        client.post("/embed", json={"sentences": sentences(10_000, 2)}, timeout=0.4)
    except httpx.TimeoutException:
        return


def metrics(client: httpx.Client) -> None:
    for _ in range(10):
        client.get("/metrics")
        client.get("/metrics", headers={"Accept": "application/openmetrics-text"})


def embed(
    client: httpx.Client, body: list[list[str]], headers: dict[str, str], **options: str
) -> None:
    response = client.post("/embed", json={"sentences": body, **options}, headers=headers)
    response.raise_for_status()


SCENES: dict[str, Callable[[httpx.Client], None]] = {
    FIRST: first,
    "nothing": lambda _: time.sleep(1),
    "50 small requests, npz": small,
    "50 small requests, JSON": small_json,
    "large answer, JSON (2,400 tokens)": large_json,
    "large answer, npz (4,800 tokens)": large_npz,
    "large answer, safetensors": large_safetensors,
    "large body (8 MiB)": large_body,
    "large body, refused": refused_body,
    "malformed bodies (16 KiB)": malformed,
    "10,000 sentences, npz": many_npz,
    "10,000 sentences, safetensors": many_safetensors,
    "10,000 sentences, JSON, pooled": many_json,
    "10,000 empty sentences": many_empty,
    "10,000 sentences, client leaves": abandoned,
    "20 scrapes of /metrics": metrics,
}


def act(url: str) -> None:
    """Run as the client: play each scene named on stdin, and print a line when it is over."""
    with httpx.Client(base_url=url, timeout=300, headers={"Content-Type": "application/json"}) as c:
        for line in sys.stdin:
            SCENES[line.strip()](c)
            print("done", flush=True)


def measure(model: Path, repeat: int) -> list[Row]:
    """Serve as `elmo serve` does and play every scene; return the longest turn of each."""
    port = _free_port()
    settings = Settings(model=str(model), port=port)
    server = assemble(settings)
    app = create_app(server)
    rows: list[Row] = []
    inner = app.router.lifespan_context

    async def direct() -> None:
        try:
            rows.extend(await _play(port, repeat))
        finally:
            server.readiness.failed.set()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        async with inner(app) as state:
            playing = asyncio.create_task(direct())
            yield state
            await playing

    app.router.lifespan_context = lifespan
    run(server, app)
    return rows


async def _play(port: int, repeat: int) -> list[Row]:
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.event_loop", "--client", f"http://127.0.0.1:{port}"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert client.stdin is not None
    assert client.stdout is not None
    rows = []
    heart = Heartbeat()
    for scene in SCENES:
        late = busy = 0.0
        for _ in range(1 if scene == FIRST else repeat):
            heart.worst()
            client.stdin.write(scene.encode() + b"\n")
            if await client.stdout.readline() != b"done\n":
                raise RuntimeError(f"the client ended in {scene!r}")
            worst = heart.worst()
            late, busy = max(late, worst[0]), max(busy, worst[1])
        rows.append((scene, late, busy))
        await asyncio.sleep(0.5)
    client.stdin.close()
    await client.wait()
    return rows


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def table(rows: list[Row]) -> Iterator[str]:
    """Return the lines of a table in Markdown."""
    yield f"Event loop, longest turn in ms; {machine.describe()}"
    yield ""
    yield "| requests | wall | cpu | over 5 ms |"
    yield "|---|--:|--:|---|"
    for scene, late, busy in rows:
        yield f"| {scene} | {late:.1f} | {busy:.1f} | {'yes' if busy > LIMIT_MS else ''} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--client", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client:
        act(arguments.client)
        return
    with tempfile.TemporaryDirectory() as folder:
        model = arguments.model or write_pair(Path(folder) / "wide", projection=512, cell=8)
        rows = measure(model, arguments.repeat)
    print(json.dumps(rows) if arguments.json else "\n".join(table(rows)))


if __name__ == "__main__":
    main()
