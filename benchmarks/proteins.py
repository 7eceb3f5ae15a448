"""Proteins of UniProt's lengths: `elmo embed` of many, and a sample beside AllenNLP.

    python -m benchmarks.proteins [--count 10000] [--longest 35213] [--checkpoint PAIR]
    python -m benchmarks.proteins --allennlp FOLDER [--sample 200] [--skip 0]

The lengths are made up: log-normal, seeded, with a median of 295 residues and a sigma of 0.65,
which give the mean of Swiss-Prot, about 360; and one of `--longest`, that of titin. The letters are
the 20 amino acids, each as likely. Random weights have the size of SeqVec.

Without AllenNLP the program runs `elmo embed --protein` on a file of them and prints the memory of
that process without files, the largest in the first and in the last quarter of its samples, one a
second. With AllenNLP it computes a seeded sample, without the longest, with AllenNLP's `_ElmoBiLm`,
which SeqVec calls, in the batches of SeqVec: shortest first, closed when they hold more than 15,000
residues or the last has more than 7,500. Each batch is a pair: AllenNLP, then ours. The batches
come in a random order, seeded, and each has its row when it ends, so that a run which is cut off is
a sample of all lengths; `--skip N` leaves out the first N of them. Both end with all layers.
`benchmarks.against_allennlp` says how to get AllenNLP.
"""

from __future__ import annotations

import argparse
import math
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks import inputs
from benchmarks.allennlp import AllenNLP
from benchmarks.machine import describe
from elmo_serve.files.vectors import LengthSorted
from elmo_serve.models.opening import open_network
from elmo_serve.output import select
from tests.support.processes import own_memory

MEDIAN, SIGMA = 295, 0.65
BATCH = 15_000  # residues, seqvec's default
SHORTEST = 10


def lengths(count: int, seed: int = 28) -> list[int]:
    """Return made-up lengths of proteins."""
    generator = random.Random(seed)
    drawn = (generator.lognormvariate(math.log(MEDIAN), SIGMA) for _ in range(count))
    return [max(SHORTEST, round(length)) for length in drawn]


def sequence(length: int, generator: random.Random) -> str:
    """Return a sequence of random amino acids."""
    return "".join(generator.choices("ACDEFGHIKLMNPQRSTVWY", k=length))


def write_fasta(path: Path, wanted: list[int]) -> None:
    """Write proteins of these lengths."""
    generator = random.Random(0)
    with path.open("w", encoding="ascii") as file:
        for number, length in enumerate(wanted):
            file.write(f">sp|P{number}|MADE_UP\n{sequence(length, generator)}\n")


def batches_of_seqvec(sequences: list[str]) -> Iterator[list[str]]:
    """Yield the batches in which SeqVec's command computes sequences."""
    batch: list[str] = []
    for each in sorted(sequences, key=len):
        batch.append(each)
        if sum(map(len, batch)) > BATCH or len(each) > BATCH / 2:
            yield batch
            batch = []
    if batch:
        yield batch


def embed_file(checkpoint: Path, wanted: list[int]) -> None:
    """Print the row of one run of `elmo embed`."""
    with tempfile.TemporaryDirectory(prefix="elmo-proteins-") as folder:
        source, output = Path(folder, "in.fasta"), Path(folder, "out.h5")
        write_fasta(source, wanted)
        program = Path(sys.executable).with_name("elmo")
        files = map(str, (program, "embed", source, output))
        command = [*files, "--protein", "--model", str(checkpoint)]
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
    print("| proteins | residues | longest | seconds | residues/s | MiB, first | MiB, last |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    print(
        f"| {len(wanted):,} | {sum(wanted):,} | {max(wanted):,} | {seconds:,.0f} | "
        f"{sum(wanted) / seconds:,.0f} | {early:,.0f} | {late:,.0f} |"
    )


def compare(checkpoint: Path, allennlp: AllenNLP, batches: list[list[str]]) -> None:
    """Print a row for each batch, a pair of AllenNLP and ours, as it ends, and one for all."""
    network = open_network(str(checkpoint))
    ours = LengthSorted(network, select("all", network.info.layers))
    print("| proteins | residues | AllenNLP, residues/s | ours, residues/s | ratio | difference |")
    print("|--:|--:|--:|--:|--:|--:|", flush=True)
    pairs: list[Pair] = []
    for batch in batches:
        pairs.append(_pair([list(each) for each in batch], ours, allennlp))
        print(pairs[-1].row(), flush=True)
    whole = Pair(
        sum(each.proteins for each in pairs),
        sum(each.residues for each in pairs),
        sum(each.theirs for each in pairs),
        sum(each.ours for each in pairs),
        max(each.difference for each in pairs),
    )
    print(whole.row())


@dataclass(frozen=True, slots=True)
class Pair:
    """One batch by both: seconds, and the largest difference of a number."""

    proteins: int
    residues: int
    theirs: float
    ours: float
    difference: float

    def row(self) -> str:
        """Return a row of the table."""
        rates = f"{self.residues / self.theirs:,.1f} | {self.residues / self.ours:,.1f}"
        ratio = f"{self.theirs / self.ours:.2f} | {self.difference:.2g}"
        return f"| {self.proteins} | {self.residues:,} | {rates} | {ratio} |"


def _pair(batch: list[list[str]], ours: LengthSorted, allennlp: AllenNLP) -> Pair:
    start = time.perf_counter()
    allennlp.forget()
    layers = allennlp.embed(batch).numpy()
    middle = time.perf_counter()
    found = [array for group in ours.groups(batch, lambda _: None) for array in group]
    end = time.perf_counter()
    expected = (layers[:, row, 1 : 1 + len(tokens)] for row, tokens in enumerate(batch))
    worst = max(float(np.abs(a - b).max()) for a, b in zip(expected, found, strict=True))
    return Pair(len(batch), sum(map(len, batch)), middle - start, end - middle, worst)


def main() -> int:
    """Print one of the two tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", type=Path, help="default: random, of the original's size")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--longest", type=int, default=35_213, help="residues; 0: no such protein")
    parser.add_argument("--allennlp", type=Path, help="its site-packages; compare with it")
    parser.add_argument("--sample", type=int, default=200, help="proteins to compare")
    parser.add_argument("--skip", type=int, default=0, help="batches that another run computed")
    parser.add_argument("--threads", type=int, help="torch's; default: its own choice")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    wanted = lengths(options.count)
    with inputs.checkpoint(options.checkpoint) as checkpoint:
        print(f"{checkpoint.name}; {describe()}", flush=True)
        if options.allennlp is None:
            embed_file(checkpoint, [*wanted, *([options.longest] if options.longest else [])])
            return 0
        generator = random.Random(1)
        sample = generator.sample(wanted, min(options.sample, len(wanted)))
        batches = [*batches_of_seqvec([sequence(length, generator) for length in sample])]
        generator.shuffle(batches)
        allennlp = AllenNLP(options.allennlp, checkpoint)
        compare(checkpoint, allennlp, batches[options.skip :])
    return 0


if __name__ == "__main__":
    sys.exit(main())
