"""`elmo serve` with workers that fail on a word, or on batches over a size.

    ELMO_MODEL=... python -m benchmarks.faults.server --raises WORD --memory-tokens 300

Settings come from the environment. The network is real; only its failures are simulated.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from elmo_model.text.by_length import BOUNDARIES
from elmo_serve import logs
from elmo_serve.http.server import run
from elmo_serve.http.state import assemble
from elmo_serve.processes.arena import Arena
from elmo_serve.processes.channel import Parent
from elmo_serve.processes.child import ChildProcess
from elmo_serve.settings import Settings, variable
from elmo_serve.settings.text import from_strings
from elmo_serve.workers.messages import RunnerSettings


def work(parent: Parent, settings: RunnerSettings, word: str, memory_tokens: int) -> None:
    """Run batches until the front hangs up, except those that are to fail."""
    # torch, in this process only
    import torch  # noqa: PLC0415

    from elmo_model.inference.batch_run import BatchRun  # noqa: PLC0415
    from elmo_model.inference.encoder import Encoder  # noqa: PLC0415
    from elmo_serve.workers import model_loading  # noqa: PLC0415

    runner, message = model_loading.start(settings, owns_process=True)
    parent.send(message)
    encode = Encoder.encode

    def faulty(self: Encoder, sentences: Sequence[Sequence[str]], **options: Any) -> BatchRun:
        if (max(map(len, sentences)) + BOUNDARIES) * len(sentences) > memory_tokens:
            raise torch.OutOfMemoryError("simulated")
        if any(word in token for sentence in sentences for token in sentence):
            raise IndexError("simulated")
        return encode(self, sentences, **options)

    Encoder.encode = faulty  # type: ignore[method-assign]
    if runner is not None:
        runner.serve(parent)


def main() -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--raises", default="!raises", help="a word that makes the model fail")
    parser.add_argument("--memory-tokens", type=int, default=1 << 30, help="largest batch")
    options = parser.parse_args()
    given = {name: os.environ.get(variable(name)) for name in Settings.model_fields}
    settings = from_strings(given)
    logs.configure(settings.log_level, settings.log_format)

    def make(runner: RunnerSettings, arena: Arena) -> ChildProcess:
        arguments = (runner, options.raises, options.memory_tokens)
        return ChildProcess("elmo-worker-faulty", work, arguments, arena)

    return run(assemble(settings, make))


if __name__ == "__main__":
    sys.exit(main())
