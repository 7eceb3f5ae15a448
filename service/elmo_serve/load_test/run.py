"""A whole load test: closed and open loops, one after another; and `elmo bench`, which runs one."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import uvloop

from elmo_client import Client
from elmo_model.errors import counted
from elmo_serve.load_test.connections import Connections
from elmo_serve.load_test.phase import Phase
from elmo_serve.load_test.sender import Request, Sender
from elmo_serve.load_test.workload import Workload
from elmo_serve.output import MEDIA_TYPES

OnStep = Callable[[str], None]

Clock = Callable[[], float]

Send = Callable[[Phase, float], Coroutine[Any, Any, float]]
"""`Sender.send`: sends a request that is due at a time, and returns a pause in seconds."""

_CLIENTS = 8
"""Clients of the closed loop where neither clients nor a rate are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTest:
    """The loads on a server: a closed loop for each number of clients, an open one for each rate.

    `duration` and `warm_up` are seconds of each load, `timeout` seconds of each request. `api_key`
    is one of the server's keys, if it requires one.
    """

    clients: Sequence[int] = ()
    rates: Sequence[float] = ()
    duration: float = 10.0
    warm_up: float = 2.0
    connections: int = 1_000
    timeout: float = 60.0
    seed: int = 1
    api_key: str | None = None

    def run(
        self, url: str, requests: Sequence[Request], on_step: OnStep = lambda _: None
    ) -> list[Phase]:
        """Send the requests in turn, and return a phase for each load.

        Ctrl-C ends it early. The process ignores SIGINT from then on: a caller should end soon.
        """
        phases: list[Phase] = []
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._run(url, requests, phases, on_step))
        return phases

    async def _run(
        self, url: str, requests: Sequence[Request], phases: list[Phase], on_step: OnStep
    ) -> None:
        headers = {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}
        connections = Connections(url, self.connections, headers)
        send = Sender(connections, cycle(requests), self.timeout).send
        source = random.Random(self.seed)

        def begin(name: str, rate: float | None = None) -> Phase:
            on_step(name)
            since = time.perf_counter() + self.warm_up
            phases.append(Phase(name, since, since + self.duration, rate))
            return phases[-1]

        try:
            with _cancelled_by_ctrl_c():
                for clients in self.clients or (() if self.rates else (_CLIENTS,)):
                    phase = begin(counted(clients, "client"))
                    await closed_loop(send, phase, clients)
                for rate in self.rates:
                    phase = begin(f"{rate:,.4g} requests/s", rate)
                    await open_loop(send, phase, rate, source)
        except asyncio.CancelledError:
            for phase in phases[-1:]:  # it is as long as it ran
                phase.until = max(phase.since, min(phase.until, time.perf_counter()))
                phase.is_interrupted = True
        finally:
            await connections.close()


@contextmanager
def _cancelled_by_ctrl_c() -> Iterator[None]:
    """Cancel the task at the first SIGINT; ignore SIGINT from then on, also after the block.

    `asyncio.Runner` raises KeyboardInterrupt at the second one, and the phases would be lost.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    former = signal.getsignal(signal.SIGINT)
    assert task is not None

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        loop.call_soon_threadsafe(task.cancel)

    if threading.current_thread() is not threading.main_thread() or not callable(former):
        yield
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, former)


async def closed_loop(
    send: Send, phase: Phase, clients: int, clock: Clock = time.perf_counter
) -> None:
    """Let clients send one request after another until `phase.until`.

    A client waits for each response, so a slow server is asked less: the latencies are those of
    so many clients, not those of a load. A refused client waits as long as `Retry-After` says.
    """

    async def client() -> None:
        while (now := clock()) < phase.until:
            pause = await send(phase, now)
            if pause:
                await asyncio.sleep(min(pause, max(0.0, phase.until - clock())))

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())


async def open_loop(
    send: Send,
    phase: Phase,
    rate: float,
    source: random.Random,
    clock: Clock = time.perf_counter,
) -> None:
    """Send `rate` requests a second, as a Poisson process, until `phase.until`; repeat none.

    Requests are sent when they are due, whether earlier ones were answered or not, and latencies
    begin at that time, also for a request that is sent late: no coordinated omission.
    """

    due = clock()
    async with asyncio.TaskGroup() as group:
        while (due := due + source.expovariate(rate)) < phase.until:
            await asyncio.sleep(max(0.0, due - clock()))
            group.create_task(send(phase, due))


_SENTENCES = 8  # a request

_REQUESTS = 64
_OPEN_REQUESTS = 200
"""Least number of distinct requests, without and with an open loop. A higher number compares fewer
responses of a short test; with a lower one several of a request are in flight, and the server
computes them together."""

_REQUESTS_A_CLIENT = 4

_SERVER = (
    *("model", "revision", "precision", "devices", "dimension", "layers", "version", "limits"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions(LoadTest):
    """The options of `elmo bench`; the command describes them. `media` is a name of `MEDIA_TYPES`.

    `layers` is a name, or numbers with commas. None and "" leave the choice to the server.
    """

    media: str
    tolerance: float | None = None
    text: Path | None = None
    sentences: int | None = None
    tokens: int | None = None
    layers: str | None = None
    task: str | None = None
    pooling: str | None = None
    dtype: str | None = None
    normalize: bool = False
    model: str | None = None

    def workload(self) -> Workload:
        """Return the requests to send."""
        fields = {
            "layers": self.layers and _layers(self.layers),
            "task": self.task,
            "pooling": self.pooling,
            "dtype": self.dtype,
            "normalize": self.normalize,
            "model": self.model,
        }
        return Workload(
            MEDIA_TYPES[self.media],
            {name: value for name, value in fields.items() if value},
            self.sentences or _SENTENCES,
            tokens=self.tokens,
            text=self.text,
            seed=self.seed,
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """A server, the response of its GET /info, the requests, and a phase for each load."""

    url: str
    info: dict[str, Any]
    workload: Workload
    requests: Sequence[Request]
    phases: Sequence[Phase]

    @property
    def title(self) -> str:
        """The server and the requests in two lines."""
        info, devices = self.info, ", ".join(self.info.get("devices", ()))
        return (
            f"{self.url}: {info['model']} {info['revision'][:12]}, {info['precision']} on "
            f"{devices}\n{len(self.requests)} requests of {self.workload.size}, "
            f"{self._mean_tokens:,.0f} tokens on average; {self.workload}"
        )

    def described(self) -> dict[str, Any]:
        """Return the server and the requests as members of JSON."""
        return {
            "url": self.url,
            "server": {name: self.info.get(name) for name in _SERVER},
            "requests": {
                "size": self.workload.size,
                "mean_tokens": self._mean_tokens,
                "fields": self.workload.fields,
                "media_type": self.workload.media_type,
            },
        }

    @property
    def _mean_tokens(self) -> float:
        return sum(request.tokens for request in self.requests) / len(self.requests)


def measure(url: str, client: Client, options: BenchOptions, on_step: OnStep) -> Measured:
    """Put the loads on a server. Ctrl-C ends the last phase early.

    Raises WorkloadError.
    """
    on_step("Preparing requests")
    info, workload = client.info(), options.workload()
    least = _OPEN_REQUESTS if options.rates else _REQUESTS
    count = max(least, _REQUESTS_A_CLIENT * max(options.clients, default=0))
    requests = workload.requests(client, count, options.tolerance)
    return Measured(url, info, workload, requests, options.run(url, requests, on_step))


def _layers(text: str) -> str | list[int]:
    numbers = text.split(",")
    return [int(each) for each in numbers] if all(map(str.isdecimal, numbers)) else text
