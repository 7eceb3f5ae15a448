"""What HTTP adds: the same sentences by the engine and by the service, in one run.

    python -m benchmarks.over_http TEXT [--checkpoint FOLDER] [--clients 16] [--tokens 12000]
    python -m benchmarks.over_http --echo

The engine is the queue and its worker, called in this process by as many callers as there are
clients afterwards, with the same requests of 32 sentences, words known: what the service has less
than that is HTTP's. The last column is the share of the time in which the worker computes.

`--echo` measures the cost of a request without a network: a worker answers zeros to 1 and to 32
clients of wrk, one sentence of 10 tokens in each request.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import orjson

from benchmarks import machine, wrk
from benchmarks.inputs import Sentence, checkpoint
from elmo_serve import logs
from elmo_serve.http.server import run
from elmo_serve.http.state import assemble
from elmo_serve.processes.channel import Parent
from elmo_serve.processes.child import ChildProcess
from elmo_serve.selection import Output
from elmo_serve.settings import Settings
from elmo_serve.settings.text import from_strings
from elmo_serve.workers.messages import Batch, Done, ModelInfo, Ready
from tests.support.servers import Running, running

_REQUEST_SENTENCES = 32
_COMPUTED = "elmo_batch_duration_seconds_sum"
_MEDIA = ("application/vnd.safetensors", "application/x-npz", "application/json")
_ECHO = ModelInfo("echo", "0", "echo", layers=3, dimension=256, parameters=0, precision="none")
_ECHO_SECONDS, _ECHO_TOKENS = 5, 10


def main() -> int:
    """Print the table."""
    parser = machine.parser(__doc__)
    parser.add_argument("text", type=Path, nargs="?", help="one tokenised sentence a line")
    parser.add_argument("--checkpoint", type=Path, help="default: random, of the original's size")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=12_000, help="to send for each row")
    parser.add_argument("--echo", action="store_true", help="measure without a network")
    parser.add_argument("--serve-echo", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve_echo:
        return _serve_echo()
    if arguments.echo:
        return _measure_echo()
    if arguments.text is None:
        parser.error("TEXT or --echo is required")
    sentences = _read(arguments.text, arguments.tokens)
    with checkpoint(arguments.checkpoint) as model:
        print(f"{model.name}; {machine.describe()}\n")
        engine = asyncio.run(_engine(str(model), sentences, arguments.clients))
        print("| through | tokens/s | of the engine | worker computes |\n|---|--:|--:|--:|")
        print(f"| the engine alone | {engine:,.0f} | | |")
        with tempfile.TemporaryDirectory() as folder, running(Path(folder), model=model) as server:
            _measure(server, sentences, arguments.clients, engine)
    return 0


def _measure(server: Running, sentences: list[Sentence], clients: int, engine: float) -> None:
    asyncio.run(_rate(server.url, sentences, clients, _MEDIA[0]))  # words become known
    for media in _MEDIA:
        before = server.metric(_COMPUTED)
        rate = asyncio.run(_rate(server.url, sentences, clients, media))
        share = (server.metric(_COMPUTED) - before) * rate / sum(map(len, sentences))
        print(f"| {media} | {rate:,.0f} | {rate / engine:.0%} | {share:.0%} |")


def _read(text: Path, tokens: int) -> list[Sentence]:
    """Return the first sentences with so many tokens together, each of at most 200."""
    sentences: list[Sentence] = []
    with text.open(encoding="utf-8") as file:
        while tokens > 0 and (line := next(file, None)) is not None:
            if words := line.split()[:200]:
                sentences.append(words)
                tokens -= len(words)
    return sentences


async def _engine(model: str, sentences: Sequence[Sentence], callers: int) -> float:
    """Return tokens/s of the queue and a worker, when the words are known."""
    server = assemble(Settings(model=model))
    engine, workers = server.engine, server.models.first.pool
    engine.start()
    assert await workers.wait_for_start() is None and workers.info is not None
    wanted = Output(layers=tuple(range(workers.info.layers)), stacked=True)

    async def call(requests: list[Sequence[Sentence]]) -> None:
        while requests:
            asked = requests.pop()
            lengths = [len(sentence) for sentence in asked]
            await engine.embed(
                [orjson.dumps(each) for each in asked], lengths, [wanted] * len(asked), 120.0
            )

    for _ in range(2):
        requests = _requests(sentences)
        start = time.perf_counter()
        await asyncio.gather(*(call(requests) for _ in range(callers)))
        seconds = time.perf_counter() - start
    await engine.stop()
    return sum(map(len, sentences)) / seconds


def _requests(sentences: Sequence[Sentence]) -> list[Sequence[Sentence]]:
    starts = range(0, len(sentences), _REQUEST_SENTENCES)
    return [sentences[start : start + _REQUEST_SENTENCES] for start in starts]


async def _rate(url: str, sentences: Sequence[Sentence], clients: int, media: str) -> float:
    """Return tokens/s of so many clients that share the sentences."""
    bodies = [orjson.dumps({"sentences": asked}) for asked in _requests(sentences)]
    headers = {"Accept": media, "Content-Type": "application/json"}

    async def send(http: httpx.AsyncClient) -> None:
        while bodies:
            answer = await http.post("/embed", content=bodies.pop(), headers=headers)
            answer.raise_for_status()

    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as http:
        start = time.perf_counter()
        await asyncio.gather(*(send(http) for _ in range(clients)))
        return sum(map(len, sentences)) / (time.perf_counter() - start)


def _measure_echo() -> int:
    """Print the rates of a server whose worker answers zeros."""
    if wrk.is_missing():
        return 2
    words = ["quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "."]
    bodies = [
        orjson.dumps({"sentences": [[f"x{number}", *words]], "layers": "top"})
        for number in range(10_000)
    ]
    columns = ("media type", "clients", "requests/s", "p50 ms", "p99 ms", "errors")
    print(f"{machine.describe()}\n\n{machine.head(*columns)}")
    command = (sys.executable, "-m", "benchmarks.over_http", "--serve-echo")
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), command=command) as server:
        for media in (_MEDIA[0], _MEDIA[2]):
            for clients in (1, 32):
                wrk.load(server.url, bodies, media, clients, 1)
                found = wrk.load(server.url, bodies, media, clients, _ECHO_SECONDS)
                figures = (f"{found.rate:,.0f}", f"{found.p50:.2f}", f"{found.p99:.2f}")
                print(machine.row(media, clients, *figures, found.errors))
    return 0


def _serve_echo() -> int:
    worker = ("elmo-worker-echo", _echo, ())
    settings = from_strings({"host": "127.0.0.1", "port": os.environ["ELMO_PORT"]})
    logs.configure(settings.log_level, settings.log_format)
    return run(assemble(settings, lambda _, arena: ChildProcess(*worker, arena)))


def _echo(parent: Parent) -> None:
    """Answer zeros until the front hangs up."""
    parent.send(Ready(_ECHO))
    while True:
        if not isinstance(batch := parent.receive(), Batch):
            continue
        memory = parent.memory(batch.block)
        for offset, output in zip(batch.offsets, batch.outputs, strict=True):
            memory[offset : offset + output.size(_ECHO_TOKENS, _ECHO.dimension)] = 0
        parent.send(Done(batch.id, 0, 0))


if __name__ == "__main__":
    sys.exit(main())
