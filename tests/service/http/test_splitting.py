"""Helper processes return the tokens of texts; they know no torch."""

import os
from pathlib import Path

import orjson

from elmo_serve.http.body import TokenizedTexts
from elmo_serve.http.texts import Tokenize, split_texts
from elmo_serve.metrics import Metrics
from elmo_serve.processes.arena import Arena
from elmo_serve.processes.helpers import HelperPool
from tests.support.processes import children


def pids() -> list[int]:
    """Return the processes of the pool; one with torch would be a `worker`."""
    return children(os.getpid())["helper"]


def libraries(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text()


async def test_a_text_is_split_without_torch_and_without_what_no_tokenizer_uses() -> None:
    pool = HelperPool(Arena(), Metrics(), 2)
    pool.start()
    task = Tokenize(("I can't.",), "ptb", "en", 5)
    pid, found = [
        await pool.run(function, *arguments, client="", is_slow=True)
        for function, arguments in ((os.getpid, ()), (split_texts, (task,)))
    ]
    assert len(pids()) == 2
    loaded = libraries(pid)
    await pool.stop()

    assert isinstance(found, TokenizedTexts)
    assert orjson.loads(found.sentences[0]) == ["I", "ca", "n't", "."]
    assert "/scipy/" not in loaded  # NLTK imports it where it is: 1 s of a core and 150 MB
    assert not pids()
