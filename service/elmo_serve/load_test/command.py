"""`elmo bench`: from its options to what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo_client import Client
from elmo_serve.load_test.phase import Phase
from elmo_serve.load_test.run import LoadTest, OnStep
from elmo_serve.load_test.sender import Request
from elmo_serve.load_test.workload import Workload
from elmo_serve.output import MEDIA_TYPES

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
    """Put the loads on a server. Ctrl-C ends the last phase early. Raises WorkloadError."""
    on_step("Preparing requests")
    info, workload = client.info(), options.workload()
    least = _OPEN_REQUESTS if options.rates else _REQUESTS
    count = max(least, _REQUESTS_A_CLIENT * max(options.clients, default=0))
    requests = workload.requests(client, count, options.tolerance)
    return Measured(url, info, workload, requests, options.run(url, requests, on_step))


def _layers(text: str) -> str | list[int]:
    numbers = text.split(",")
    return [int(each) for each in numbers] if all(map(str.isdecimal, numbers)) else text
