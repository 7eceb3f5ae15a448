"""`elmo serve` with workers that fail on a word, or on batches over a size.

    ELMO_MODEL=... python -m benchmarks.faults.server --raises WORD --memory-tokens 300

Settings come from the environment. The network is real; only its failures are simulated.
"""

from __future__ import annotations

import argparse
import os
import sys

from elmo_serve import logs
from elmo_serve.http.server import run
from elmo_serve.http.wiring import assemble
from elmo_serve.settings import Settings, variable
from elmo_serve.settings.text import from_strings
from elmo_serve.workers.messages import Failed, RunnerSettings
from elmo_serve.workers.process import ChildProcess, Parent
from elmo_serve.workers.shared_memory import SharedMemoryPool


def work(parent: Parent, settings: RunnerSettings, word: str, memory_tokens: int) -> None:
    """Run batches until the front hangs up, except those that are to fail."""
    from elmo_serve.workers import model_loading  # noqa: PLC0415  # torch, in this process only

    logs.configure(settings.log_level, settings.log_format)
    runner, message = model_loading.start(settings, owns_process=True)
    parent.send(message)
    while runner is not None:
        batch = parent.receive()
        if batch.padded_tokens > memory_tokens:
            parent.send(Failed(batch.id, 0.0, True, "OutOfMemoryError: simulated"))
        elif any(word.encode() in sentence for sentence in batch.sentences):
            parent.send(Failed(batch.id, 0.0, False, "IndexError: simulated"))
        else:
            parent.send(runner.run(batch, parent.memory(batch.segment)))


def main() -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--raises", default="!raises", help="a word that makes the model fail")
    parser.add_argument("--memory-tokens", type=int, default=1 << 30, help="largest batch")
    options = parser.parse_args()
    given = {name: os.environ.get(variable(name)) for name in Settings.model_fields}
    settings = from_strings(given)
    logs.configure(settings.log_level, settings.log_format)

    def make(runner: RunnerSettings, segments: SharedMemoryPool) -> ChildProcess:
        arguments = (runner, options.raises, options.memory_tokens)
        return ChildProcess("elmo-worker-faulty", work, arguments, segments)

    return run(assemble(settings, make))


if __name__ == "__main__":
    sys.exit(main())
