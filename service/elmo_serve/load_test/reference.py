"""Where the expected vectors of a load test come from: another server, or a model in process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from elmo_client import Client
from elmo_serve.load_test.checker import Checker
from elmo_serve.load_test.requests import Wanted
from elmo_serve.load_test.workload import Body, Sentence, WorkloadError
from elmo_serve.output import Output

_TOGETHER = 8
"""Bodies whose sentences are computed at once. A higher number takes more memory, a lower one more
time."""

Embed = Callable[[Sequence[Sentence]], Sequence[NDArray[Any]]]


def of_server(client: Client, wanted: Wanted) -> Embed:
    """Return a function that another server computes. It raises ElmoError."""
    fields = {name: value for name, value in wanted.fields.items() if name != "model"}
    return lambda sentences: client.embed(sentences, **fields)


def in_process(model: str, output: Output, info: dict[str, Any]) -> Embed:
    """Return a function that computes with the model of a path or a built-in name, in process.

    `info` describes the server that is measured: its revision must be that of the model, and its
    precision is used. Raises WorkloadError.
    """
    from elmo_model.checkpoints import CheckpointError  # noqa: PLC0415 - torch
    from elmo_serve.files.in_process import InProcess  # noqa: PLC0415 - torch

    try:
        network = InProcess.open(model, precision=info["precision"])
    except (CheckpointError, RuntimeError, ValueError) as error:
        raise WorkloadError(f"--reference {model}: {error}") from error
    if network.info.revision != info["revision"]:
        raise WorkloadError(
            f"--reference {model} has revision {network.info.revision}; the server serves "
            f"{info['model']} of revision {info['revision']}"
        )
    return lambda sentences: network.embed(sentences, output)


def expect(checker: Checker, bodies: Sequence[Body], embed: Embed) -> None:
    """Let the checker expect these vectors of each body, while it has room."""
    for start in range(0, len(bodies), _TOGETHER):
        group = bodies[start : start + _TOGETHER]
        found = iter(embed([sentence for body in group for sentence in body.sentences]))
        for number, body in enumerate(group, start):
            if not checker.expect(number, [next(found) for _ in body.sentences]):
                return
