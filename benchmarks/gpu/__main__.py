"""Everything that a first visit to a machine with a GPU should know, in one call.

    python -m benchmarks.gpu TEXT FOLDER [--seconds 420] [--allennlp FOLDER] [--device cuda:0]

Runs, in the order of their worth and each with a limit of its own: the environment, the tests that
need a GPU, the network's table, and that of a server. FOLDER gets the output of each.
Prints the tables and, at the end, how each part ended. Installs nothing and needs no network. The
exit status is 1 if a part failed. A part that does not fit into the rest of the time is left out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks import machine

_SHOWN = 40  # lines of the end of each output
_LEAST = 10.0  # seconds: with less nothing begins


@dataclass(frozen=True, slots=True)
class Part:
    """A program, and the most seconds that it may take."""

    name: str
    seconds: float
    command: tuple[str, ...]


def parts(options: argparse.Namespace) -> list[Part]:
    """Return the parts in their order."""
    python, device = sys.executable, ("--device", options.device)
    load: list[str] = []
    scale = ["--rows", "1", "8", "64", "256", "--tokens", "6000", "--rounds", "3"]
    if options.quick:
        load = ["--checkpoint", "tests/golden/allennlp/small"]
        scale = ["--rows", "1", "2", "--tokens", "10", "--rounds", "1", *load]
        scale += ["--precisions", "float32"]
        load += ["--precision", "float32", "--seconds", "0.3"]
    allennlp = ("--allennlp", options.allennlp) if options.allennlp else ()
    make = ("make", f"VENV={Path(python).parent.parent}", "test-cuda")
    return [
        Part("environment", 60, (python, "-m", "benchmarks.gpu.environment", *device)),
        *([] if options.quick else [Part("tests", 120, make)]),
        Part(
            "on_cuda",
            180,
            (python, "-m", "benchmarks.on_cuda", options.text, *device, *scale, *allennlp),
        ),
        Part("service", 90, (python, "-m", "benchmarks.gpu.service", options.text, *device, *load)),
    ]


def run(part: Part, log: Path, seconds: float) -> str:
    """Run a part with its output in a file, print its end, and return how it ended."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    begin = time.monotonic()
    with log.open("wb") as output:
        try:
            code = subprocess.run(
                part.command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                timeout=seconds,
                check=False,
            ).returncode
            ended = "done" if code == 0 else f"failed with {code}"
        except subprocess.TimeoutExpired:
            ended = "not finished"
        except OSError as error:
            ended = f"not started: {error}"
    print("\n".join(["", f"{part.name}:", *log.read_text(errors="replace").splitlines()[-_SHOWN:]]))
    return f"| {part.name} | {ended} | {time.monotonic() - begin:.0f} |"


def main() -> int:
    """Run all parts and print how they ended."""
    parser = machine.parser(__doc__)
    parser.add_argument("text", help="a file with one tokenised sentence a line")
    parser.add_argument("folder", type=Path, help="a folder for the outputs")
    parser.add_argument("--seconds", type=float, default=420.0, help="of all parts together")
    parser.add_argument("--allennlp", help="the folder with AllenNLP 2.10.1")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--quick", action="store_true", help="a trial: small sizes, no tests")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    begin, rows = time.monotonic(), []
    for part in parts(options):
        left = options.seconds - (time.monotonic() - begin)
        if left < _LEAST:
            rows.append(f"| {part.name} | left out | 0 |")
            continue
        log = options.folder / f"{part.name}.txt"
        rows.append(run(part, log, min(part.seconds, left)))
        sys.stdout.flush()
    print("\n".join(["", machine.head("part", "end", "seconds", names=2), *rows]))
    return 0 if all("| done |" in each for each in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
