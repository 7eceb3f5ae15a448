"""Memory per sentence of each output format of `elmo embed`.

    python -m benchmarks.format_memory [--sentences 20000 200000]

Writes files of two numbers of sentences from a source that costs nothing, each in a process of its
own, and prints the growth of the peak memory for each additional sentence.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.machine import describe
from elmo_serve.files.outputs import OUTPUTS, allennlp
from elmo_serve.files.run import Job
from elmo_serve.files.selection import selection
from elmo_serve.files.sources.source import OnComputed, Stateless, Tokens, Vectors
from elmo_serve.files.text import Text
from elmo_serve.workers.messages import ModelInfo

FORMATS = {
    **OUTPUTS,
    "allennlp --forget-sentences": allennlp.NUMBERS_ALONE,
    "allennlp --use-sentence-keys": allennlp.BY_SENTENCE,
}
_LINE = "sentence {:07} of thirty-eight letters\n"


class Ones(Stateless):
    """A source of ones: vectors of 4 numbers, one layer."""

    info = ModelInfo("ones", "1", "none", 3, 4, 0, "float32")

    def groups(
        self, sentences: Iterable[Tokens], on_computed: OnComputed
    ) -> Iterator[list[Vectors]]:
        """Yield a group for each sentence."""
        for tokens in sentences:
            yield [np.ones((len(tokens), 4), np.float32)]


def peak(form: str, sentences: int) -> int:
    """Write a file and return the peak memory of this process in KiB."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text")
        with text.open("w", encoding="utf-8") as file:
            file.writelines(_LINE.format(number) for number in range(sentences))
        job = Job(Text(text, "text"), FORMATS[form], Ones(), selection("top", 3))
        job.to_file(Path(folder, "vectors"), {})
    # ru_maxrss of a child is at least the memory of its parent when it was started.
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x)
    return int(line.split()[1])


def main() -> int:
    """Print the table; or, in a child, one number."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sentences", type=int, nargs=2, default=[20_000, 200_000])
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(peak(options.child[0], int(options.child[1])))
        return 0
    print(f"{describe()}\n\n| `--format` | bytes a sentence |\n|---|--:|")
    few, many = options.sentences
    for form in FORMATS:
        peaks = []
        for count in (few, many):
            command = [sys.executable, "-m", "benchmarks.format_memory", "--child", form]
            run = subprocess.run([*command, str(count)], capture_output=True, text=True, check=True)
            peaks.append(int(run.stdout) * 1024)
        print(f"| `{form}` | {(peaks[1] - peaks[0]) / (many - few):,.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
