"""Every response under load equals what the network itself computes; a wrong one is seen."""

import asyncio
import math
import random
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest

from benchmarks.comparison import Request
from benchmarks.connections import Connections
from benchmarks.load import Phase, Sender, closed_loop
from elmo_serve.http.media_types import ENCODERS
from tests.support.answers import TASK, TASK_NAME, Answers, Asked, random_options, sentences
from tests.support.servers import SMALL, Running

CLIENTS = 20
COMPARED = 60
"""Responses after which the clients stop."""

TIMEOUT_SECONDS = 120.0


@pytest.fixture(scope="module")
def answers() -> Answers:
    return Answers(str(SMALL), sentences(None, 60, random.Random(3)))


def requests_of(answers: Answers, source: random.Random) -> Iterator[Request]:
    """Yield requests for every kind of output and media type, without end."""
    while True:
        chosen = [source.randrange(len(answers.sentences)) for _ in range(source.randint(1, 40))]
        asked = Asked(tuple(chosen), random_options(source, answers.layer_count))
        yield answers.request(asked, source.choice(list(ENCODERS)))


async def load(url: str, answers: Answers) -> Phase:
    """Return the counts of some clients, which leave half of their requests early."""
    source = random.Random(1)
    connections = Connections(url, CLIENTS)
    sender = Sender(connections, requests_of(answers, source), TIMEOUT_SECONDS)

    async def send(phase: Phase, due: float) -> float:
        if phase.compared >= COMPARED:
            phase.until = due
        if source.random() < 0.5:
            return await sender.send(phase, due)
        with suppress(TimeoutError):
            async with asyncio.timeout(source.uniform(0, 0.2)):
                return await sender.send(phase, due)
        return 0.0

    found = Phase("load", until=math.inf)
    await closed_loop(send, found, CLIENTS)
    await connections.close()
    return found


def test_every_answer_under_load_equals_the_networks_own(server: Running, answers: Answers) -> None:
    server.serve_task(TASK_NAME, **TASK)
    found = asyncio.run(load(server.url, answers))

    assert found.compared >= COMPARED
    assert not (found.is_bad or found.late), found.faults
    assert 0 < found.worst <= 1


@pytest.mark.parametrize(
    "options",
    [{}, {"layers": "top"}, {"layers": [2, 0]}, {"task": "load"}, {"mix": TASK}],
    ids=["all", "top", "list", "task", "mix"],
)
def test_a_wrong_answer_would_be_seen(answers: Answers, options: dict[str, object]) -> None:
    index = max(range(60), key=lambda i: len(answers.sentences[i]))
    right = answers.expected(index, options).astype(np.float32)
    assert answers.difference(right, index, options) < 0.1

    slightly = right.copy()
    slightly.flat[right.size // 2] += 1e-4 * np.abs(right).max()
    assert answers.difference(slightly, index, options) > 1
    assert answers.difference(right[..., ::-1], index, options) > 1
    assert answers.difference(right[..., :-1], index, options) > 1
    assert answers.difference(right.astype(np.float16), index, options) > 1
    assert answers.difference(np.full_like(right, np.nan), index, options) > 1
