"""Text processes return the tokens of texts; they know no torch."""

import os
from pathlib import Path

import orjson

from elmo_serve.http.helpers.pool import HelperPool
from elmo_serve.http.helpers.text import SPLITTING, Tokenize, TokenizedTexts, split
from elmo_serve.metrics import Metrics
from elmo_serve.processes.arena import Arena
from tests.support.processes import children


def pids() -> list[int]:
    """Return the processes of the pool; one with torch would be a `worker`."""
    return children(os.getpid())["json"]


def libraries(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text()


async def test_processes_are_spawned_for_the_first_text_and_load_no_torch() -> None:
    workers = HelperPool(SPLITTING, Arena(), Metrics())
    assert not pids()
    found = await split(workers, Tokenize(("I can't.",), "ptb", "en", 5))
    (pid,) = pids()
    loaded = libraries(pid)
    await workers.stop()

    assert isinstance(found, TokenizedTexts)
    assert orjson.loads(found.sentences[0]) == ["I", "ca", "n't", "."]
    assert "/scipy/" not in loaded  # NLTK imports it where it is: 1 s of a core and 150 MB
    assert not pids()
