"""The part of a load test's JSON that the capacity model uses."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from elmo_serve.capacity.batch_time import BatchTime
from elmo_serve.load_test.tally import Batches


class MeasurementError(Exception):
    """A file is no JSON of `elmo bench`, or lacks what is needed. The text has the reason."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measured server and the requests that it was sent.

    `lengths` are the tokens of each sentence of each request, `bytes_in` and `bytes_out` those of
    a token. `overhead` are the seconds of a request of one client outside of the worker.
    """

    model: str
    dimension: int
    layers: int
    workers: int
    batch_tokens: int
    queue_tokens: int
    batch_time: BatchTime
    overhead: float
    lengths: Sequence[Sequence[int]]
    bytes_in: float
    bytes_out: float

    @property
    def mean_tokens(self) -> float:
        """The mean number of tokens of a request."""
        return sum(map(sum, self.lengths)) / len(self.lengths)

    @property
    def mean_cost(self) -> float:
        """The mean number of tokens of a request, boundaries included."""
        return self.mean_tokens + 2 * sum(map(len, self.lengths)) / len(self.lengths)

    def draw(self, source: random.Random) -> Sequence[int]:
        """Return the lengths of one of the requests."""
        return source.choice(self.lengths)


def read(path: Path) -> Measurement:
    """Return the measurement of a file that `elmo bench --json` wrote. Raises MeasurementError."""
    try:
        return parse(orjson.loads(path.read_bytes()))
    except OSError as error:
        raise MeasurementError(f"{path}: {error.strerror or error}") from error
    except orjson.JSONDecodeError as error:
        raise MeasurementError(f"{path} is not JSON: {error}") from error
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise MeasurementError(f"{path} is no JSON of `elmo bench --json`: {error!r}") from error
    except ValueError as error:
        raise MeasurementError(
            f"{path}: {error}: measure one server that has no other clients and no proxy before it"
        ) from error


def parse(found: dict[str, Any]) -> Measurement:
    """Return the measurement of a JSON object of `elmo bench`.

    Raises KeyError or TypeError for another object, ValueError where no batches were measured.
    """
    server, requests = found["server"], found["requests"]
    phases = [phase for phase in found["phases"] if phase["batches"]]
    batch_time = BatchTime.fit([Batches(**phase["batches"]) for phase in phases])
    answered = [phase for phase in found["phases"] if phase["answered_in_all"]["tokens"]]
    last = answered[-1]
    return Measurement(
        model=server["model"],
        dimension=server["dimension"],
        layers=server["layers"],
        workers=len(server["devices"]),
        batch_tokens=server["limits"]["max_batch_tokens"],
        queue_tokens=server["limits"]["max_queue_tokens"],
        batch_time=batch_time,
        overhead=_overhead(phases),
        lengths=requests["lengths"],
        bytes_in=last["sent_bytes_per_token"],
        bytes_out=last["received_bytes_per_token"],
    )


def _overhead(phases: Sequence[dict[str, Any]]) -> float:
    """Return the mean latency of one client less the worker's time for a request; 0 without one."""
    for phase in phases:
        if phase["load"] != "1 client":
            continue
        mean_latency = phase["latency_ms"]["mean"] / 1e3
        computing = phase["batches"]["seconds"] / phase["answered_in_all"]["requests"]
        return float(max(0.0, mean_latency - computing))
    return 0.0
