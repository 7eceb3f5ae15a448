"""Text processes are spawned for the first text, know no torch, and may be lost."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson

from elmo_serve.metrics import Metrics
from elmo_serve.token_warnings import BILM_TOKEN_LIMIT
from elmo_serve.workers.shared_memory import SharedMemoryPool
from elmo_serve.workers.text_pool import TextWorkerPool
from elmo_serve.workers.text_worker import Tokenize, TokenizedTexts
from tests.support.processes import children

TASK = Tokenize(("I can't.",), "ptb", "en", 5, BILM_TOKEN_LIMIT)


@asynccontextmanager
async def pool() -> AsyncIterator[TextWorkerPool]:
    found = TextWorkerPool(1, SharedMemoryPool(), Metrics())
    try:
        yield found
    finally:
        await found.stop()


def pids() -> list[int]:
    """Return the processes of the pool; one with torch would be a `worker`."""
    return children(os.getpid())["json"]


def libraries(pid: int) -> str:
    """Return the lines of the files that a process has mapped."""
    return Path(f"/proc/{pid}/maps").read_text()


async def tokens(workers: TextWorkerPool) -> list[str]:
    found = await workers.tokenize(TASK)
    assert isinstance(found, TokenizedTexts)
    return list(orjson.loads(found.sentences[0]))


async def test_processes_are_spawned_for_the_first_text_and_load_no_torch() -> None:
    async with pool() as workers:
        assert not pids()
        assert await tokens(workers) == ["I", "ca", "n't", "."]
        (pid,) = pids()
        # NLTK imports it where it is installed: 1 s of processor time and 150 MB.
        assert "/scipy/" not in libraries(pid)
    assert not pids()


async def test_a_pool_that_never_had_a_text_stops() -> None:
    async with pool():
        pass
