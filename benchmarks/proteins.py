"""Proteins of UniProt's lengths: `elmo embed` of many, and a sample beside AllenNLP.

    python -m benchmarks.proteins [--count 10000] [--longest 35213] [--checkpoint PAIR]
    python -m benchmarks.proteins --allennlp FOLDER [--sample 200] [--rounds 2]

The lengths are made up: log-normal, seeded, with a median of 295 residues and a sigma of 0.65,
which give the mean of Swiss-Prot, about 360; and one of `--longest`, that of titin. The letters are
the 20 amino acids, each as likely. Random weights have the size of SeqVec.

Without AllenNLP the program runs `elmo embed --protein` on a file of them and prints the memory of
that process without files, the largest in the first and in the last quarter of its samples, one a
second. With AllenNLP it computes a seeded sample, without the longest, with AllenNLP's `_ElmoBiLm`,
which SeqVec calls, in the batches of SeqVec: shortest first, closed when they hold more than 15,000
residues or the last has more than 7,500; and in the batches of `elmo embed`. First the layers of
both are compared, which also warms both; then each round times AllenNLP, then ours, up to the sum
of the layers of every residue, which is what SeqVec writes.
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
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

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


def compare(checkpoint: Path, allennlp: AllenNLP, sequences: list[str], rounds: int) -> None:
    """Print the largest difference of a layer, a row for each round as it ends, and their sum."""
    network = open_network(str(checkpoint))
    batches = [*batches_of_seqvec(sequences)]
    layers, summed = (LengthSorted(network, select(name, 3)) for name in ("all", "sum"))
    worst = 0.0
    for batch in batches:
        expected = all_layers(allennlp, batch)
        found = layers.embed([[*each] for each in batch])
        for row, own in enumerate(found):
            other = expected[:, row, 1 : 1 + own.shape[1]]
            worst = max(worst, float(np.abs(other - own).max()))
    residues = sum(map(len, sequences))
    print(f"{len(sequences)} proteins, {residues:,} residues; largest difference {worst:.2g}")
    print("| round | AllenNLP, residues/s | ours, residues/s | ratio |")
    print("|--:|--:|--:|--:|", flush=True)
    theirs, ours = [], []
    for number in range(1, rounds + 1):
        theirs.append(seconds(partial(sums, allennlp, batches)))
        ours.append(seconds(partial(summed.embed, [[*each] for each in sequences])))
        print(row_of(str(number), residues, theirs[-1], ours[-1]), flush=True)
    print(row_of("all", residues * rounds, sum(theirs), sum(ours)))


def sums(allennlp: AllenNLP, batches: list[list[str]]) -> None:
    """Compute the sum of the layers of each residue with AllenNLP, as SeqVec does."""
    for batch in batches:
        all_layers(allennlp, batch).sum(axis=0)


def all_layers(allennlp: AllenNLP, batch: list[str]) -> NDArray[np.float32]:
    """Return AllenNLP's layers (L + 1, proteins, n + 2, 2P) of a batch, from zero state."""
    allennlp.forget()
    return allennlp.embed([[*each] for each in batch]).numpy()


def seconds(compute: Callable[[], object]) -> float:
    """Return the time that a computation takes."""
    start = time.perf_counter()
    compute()
    return time.perf_counter() - start


def row_of(name: str, residues: int, theirs: float, ours: float) -> str:
    """Return a row of the table, from the seconds of both."""
    return f"| {name} | {residues / theirs:,.1f} | {residues / ours:,.1f} | {theirs / ours:.2f} |"


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
    parser.add_argument("--rounds", type=int, default=2, help="pairs of AllenNLP and ours")
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
        sequences = [sequence(length, generator) for length in sample]
        allennlp = AllenNLP(options.allennlp, checkpoint)
        compare(checkpoint, allennlp, sequences, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
