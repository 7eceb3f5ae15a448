"""Proteins of UniProt's lengths: the memory and the speed of `elmo embed`.

    python -m benchmarks.proteins [--count 10000] [--longest 35213] [--checkpoint PAIR]

The lengths are made up: log-normal, seeded, with a median of 295 residues and a sigma of 0.65,
which give the mean of Swiss-Prot, about 360; and one of `--longest`, that of titin. The letters are
the 20 amino acids, each as likely. Random weights have the size of SeqVec.

The program runs `elmo embed --pooling mean` on a file of them and prints the memory of that process
without files, the largest in the first and in the last quarter of its samples, one a second.
"""

import math
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import inputs, machine
from tests.support.processes import own_memory

MEDIAN, SIGMA = 295, 0.65
SHORTEST = 10


def lengths(count: int, seed: int = 28) -> list[int]:
    """Return made-up lengths of proteins."""
    generator = random.Random(seed)
    drawn = (generator.lognormvariate(math.log(MEDIAN), SIGMA) for _ in range(count))
    return [max(SHORTEST, round(length)) for length in drawn]


def write_fasta(path: Path, wanted: list[int]) -> None:
    """Write proteins of these lengths."""
    generator = random.Random(0)
    with path.open("w", encoding="ascii") as file:
        for number, length in enumerate(wanted):
            residues = "".join(generator.choices("ACDEFGHIKLMNPQRSTVWY", k=length))
            file.write(f">sp|P{number}|MADE_UP\n{residues}\n")


def embed_file(checkpoint: Path, wanted: list[int]) -> None:
    """Print the row of one run of `elmo embed`."""
    with tempfile.TemporaryDirectory(prefix="elmo-proteins-") as folder:
        source, output = Path(folder, "in.fasta"), Path(folder, "out.h5")
        write_fasta(source, wanted)
        program = Path(sys.executable).with_name("elmo")
        files = map(str, (program, "embed", source, output))
        command = [*files, "--pooling", "mean", "--model", str(checkpoint)]
        start = time.perf_counter()
        memory = []
        with subprocess.Popen(command) as process:
            while process.poll() is None:
                time.sleep(1)
                memory.append(own_memory(process.pid) if process.poll() is None else 0.0)
        seconds = time.perf_counter() - start
        if process.returncode:
            raise SystemExit(process.returncode)
    quarter = max(1, len(memory) // 4)
    early, late = max(memory[:quarter]), max(memory[-quarter:])
    columns = ["proteins", "residues", "longest", "seconds", "residues/s", "MiB first", "MiB last"]
    figures = (len(wanted), sum(wanted), max(wanted), seconds, sum(wanted) / seconds, early, late)
    print(machine.head(*columns, names=0))
    print(machine.row(*(f"{figure:,.0f}" for figure in figures)))


def main() -> int:
    """Print the table."""
    parser = machine.parser(__doc__)
    parser.add_argument("--checkpoint", type=Path, help="default: random, of the original's size")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--longest", type=int, default=35_213, help="residues; 0: no such protein")
    options = parser.parse_args()
    longest = [options.longest] if options.longest else []
    with inputs.checkpoint(options.checkpoint) as checkpoint:
        print(f"{checkpoint.name}; {machine.describe()}", flush=True)
        embed_file(checkpoint, [*lengths(options.count), *longest])
    return 0


if __name__ == "__main__":
    sys.exit(main())
