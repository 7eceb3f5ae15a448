"""What `elmo embed` costs beside the network, and whether its memory grows with the file.

    python -m benchmarks.whole_file TEXT [--model NAME] [--tokens 1000000]
    python -m benchmarks.whole_file TEXT --model original --tokens 10777 --layers all --cold

Embeds the text, over and over until there are so many tokens, as `elmo embed` does: survey, parts,
file and all. A stopwatch around the network's own calls says how much of the time that is. Memory
is that of the process without files, when a tenth is done and at the end. The second table has the
seconds of a whole run: the start of the process with its imports, the checkpoint, the encoder, the
network and the rest, which is the file. `--cold` leaves out the first, small run.
"""

import itertools
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from benchmarks import machine
from elmo_model.models.opening import open_model
from elmo_model.system import keep_freed_memory
from elmo_serve.files.outputs import OUTPUTS
from elmo_serve.files.run import EmbedRun
from elmo_serve.files.text import Text
from elmo_serve.files.vectors import LengthSorted
from elmo_serve.models.download import locate
from elmo_serve.models.in_process import InProcess, Vectors, open_network
from elmo_serve.selection import NAMED, Output, select
from tests.support.processes import own_memory


class Watched:
    """A network whose calls are timed."""

    def __init__(self, network: InProcess) -> None:
        self.network, self.info, self.batch_tokens = network, network.info, network.batch_tokens
        self.seconds = 0.0

    def embed(self, sentences: Sequence[Sequence[str]], output: Output) -> list[Vectors]:
        """As that of the network."""
        start = time.perf_counter()
        arrays = self.network.embed(sentences, output)
        self.seconds += time.perf_counter() - start
        return arrays


def enlarge(text: Path, tokens: int, target: Path) -> None:
    """Write the lines of a text over and over until they hold so many tokens."""
    lines = [line for line in text.read_text(encoding="utf-8").splitlines() if line.strip()]
    with target.open("w", encoding="utf-8") as file:
        for line in itertools.cycle(lines):
            file.write(f"{line}\n")
            tokens -= len(line.split())
            if tokens <= 0:
                return


def since_start() -> float:
    """Return the age of this process in seconds, to a clock tick."""
    begun = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - begun / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Print the tables."""
    marks = [since_start()]
    parser = machine.parser(__doc__)
    parser.add_argument("text", type=Path, help="one tokenised sentence a line")
    parser.add_argument("--model", default="english", help="a built-in name or a path")
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--layers", choices=NAMED, default="average")
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    keep_freed_memory()
    model = open_model(locate(options.model))
    marks.append(since_start())
    network = Watched(open_network(model, owns_process=True))
    marks.append(since_start())
    wanted = select(options.layers, network.info.layers)
    early = 0.0

    def step(name: str, done: int = 0, total: int = 0, unit: str = "tokens") -> None:
        nonlocal early
        if not early and name == "Embedding" and done >= total / 10:
            early = own_memory(os.getpid())

    with tempfile.TemporaryDirectory(prefix="elmo-whole-file-") as folder:
        text, first, output = (Path(folder, name) for name in ("text", "first", "vectors"))
        enlarge(options.text, options.tokens, text)
        # once before: programs that are made at first use are not the file's
        enlarge(options.text, max(1, options.tokens // 50), first)
        form, source = OUTPUTS["allennlp"], LengthSorted(cast(InProcess, network), wanted)
        if not options.cold:
            EmbedRun(form, source).to_file(Text(first, "first"), Path(folder, "aside"), {})
            network.seconds = 0.0
        run = EmbedRun(form, source, step)
        run.to_file(Text(text, "text"), output, {})
        seconds, size = run.seconds, output.stat().st_size / 1e6
    memory = own_memory(os.getpid())
    print(f"{network.info.name}; {machine.describe()}\n")
    columns = ("tokens", "sentences", "tokens/s", "the network alone", "share", "MB, early, last")
    print(machine.head(*columns, "file", names=0))
    cells = (
        *(f"{run.tokens:,}", f"{run.sentences:,}"),
        *(f"{run.tokens / each:,.0f}" for each in (seconds, network.seconds)),
        *(f"{network.seconds / seconds:.1%}", f"{early:,.0f} {memory:,.0f}", f"{size:,.0f}"),
    )
    print(machine.row(*cells))
    rest = seconds - network.seconds
    parts = (marks[0], marks[1] - marks[0], marks[2] - marks[1], network.seconds, rest)
    columns = ("start", "checkpoint", "encoder", "network", "file", "seconds")
    print(f"\n{machine.head(*columns, names=0)}")
    print(machine.row(*(f"{seconds:.2f}" for seconds in (*parts, sum(parts)))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
