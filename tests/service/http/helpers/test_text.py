"""Text processes return tokens and offsets, or the text that they cannot split; know no torch."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson

from elmo_serve.http.helpers.pool import HelperPool
from elmo_serve.http.helpers.text import (
    SPLITTING,
    Tokenize,
    TokenizedTexts,
    split,
)
from elmo_serve.metrics import Metrics
from elmo_serve.processes.arena import Arena
from elmo_serve.token_warnings import BILM_TOKEN_LIMIT
from tests.support.processes import children

TASK = Tokenize(("I can't.",), "ptb", "en", 5, BILM_TOKEN_LIMIT)


@asynccontextmanager
async def pool() -> AsyncIterator[HelperPool]:
    found = HelperPool(SPLITTING, Arena(), Metrics())
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


async def tokens(workers: HelperPool) -> list[str]:
    found = await split(workers, TASK)
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
