"""A run of `elmo embed` is killed, interrupted, continued, or finds the disk full."""

from __future__ import annotations

import fcntl
import json
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import safetensors
import torch

from elmo_model.elmo import Elmo
from tests.support.embedding_runs import (
    begin,
    close,
    done,
    layers_of,
    refused,
    sentences_of,
)
from tests.support.scripted_server import after, scripted_server
from tests.support.servers import SMALL


def kept(journal: Path) -> int:
    try:
        with safetensors.safe_open(journal, framework="numpy") as file:
            return int(json.loads(file.metadata()["journal"])["sentences"])
    except FileNotFoundError:
        return 0


def limited(size: int) -> Callable[[], None]:
    """Return a function that limits the size of the files of a process, as a full disk does."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def carried(elmo: Elmo, sentences: Sequence[Sequence[str]], size: int) -> list[np.ndarray]:
    state, found = None, []
    with torch.inference_mode():
        for start in range(0, len(sentences), size):
            representations, state = elmo(sentences[start : start + size], state)
            found += [layers[:, 1:-1].mean(0).numpy() for layers in representations.sentences()]
    return found


HELD = """
import sys
from pathlib import Path
from elmo_serve.files.in_process import InProcess
from elmo_serve.files.outputs import OUTPUTS
from elmo_serve.files.run import Job
from elmo_serve.files.selection import selection
from elmo_serve.files.sources.local import LengthSorted, Stateful
from elmo_serve.files.text import Text

source, output, model, size = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
network = InProcess.open(model, device="cpu")
wanted = selection("average", network.info.layers)
inner = Stateful(network, wanted, size) if size else LengthSorted(network, wanted)

class Held:
    info, state, restore = inner.info, inner.state, inner.restore

    def groups(self, sentences, on_computed):
        groups = inner.groups(sentences, on_computed)
        for _ in range(2):
            yield next(groups)
        print("held", flush=True)
        sys.stdin.read()

identity = {"layers": "average", "input format": "plain", "blank lines": False,
            "batch size": size or None, "format": "npz"}
job = Job(Text(source, "text"), OUTPUTS["npz"], Held(), wanted, keep_seconds=0)
job.to_file(output, identity)
"""


@pytest.mark.parametrize(
    ("flags", "count"),
    [([], 12_000), (["--carry-state", "--batch-size", "7"], 40)],
    ids=["length sorted", "stateful"],
)
def test_a_killed_run_continues_where_it_was(
    tmp_path: Path, elmo: Elmo, flags: list[str], count: int
) -> None:
    sentences = sentences_of(count)
    source, output = tmp_path / "in.txt", tmp_path / "out.npz"
    source.write_text("".join(" ".join(each) + "\n" for each in sentences), encoding="utf-8")
    size = flags[-1] if flags else "0"
    process = subprocess.Popen(
        [sys.executable, "-c", HELD, str(source), str(output), str(SMALL), size],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    process.kill()
    process.communicate()
    before = kept(tmp_path / "out.npz.journal")
    assert 0 < before < count
    assert not output.exists()
    with (tmp_path / "out.npz.part").open("ab") as file:
        file.write(b"half a vector")

    printed = done(source, output, "--average", *flags)

    assert f"{count:,} sentences, {before:,} of them by an earlier run" in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.npz"]
    expected = carried(elmo, sentences, 7) if flags else None
    with np.load(output) as found:
        assert found.files == [str(number) for number in range(count)]
        for number in (*range(0, count, 97), before - 1, before, count - 1):
            alone = layers_of(elmo, [sentences[number]])[0].mean(0)
            close(found[str(number)], alone if expected is None else expected[number])


@pytest.mark.parametrize("name", ["out.hdf5", "out.npz", "out.parquet"])
@pytest.mark.parametrize("room", [0.5, 1.01], ids=["for half", "for the part alone"])
def test_after_a_full_disk_the_same_command_continues(
    tmp_path: Path, name: str, room: float
) -> None:
    sentences = sentences_of(400)
    source, output = tmp_path / "in.txt", tmp_path / name
    source.write_text("".join(" ".join(each) + "\n" for each in sentences), encoding="utf-8")
    part = sum(map(len, sentences)) * 3 * 32 * 4
    limit = int(part * room)

    process = begin(source, output, "--all", preexec_fn=limited(limit))
    said, complaint = process.communicate()

    assert process.returncode == 1, (process.returncode, said, complaint)
    (line,) = complaint.splitlines()
    assert line.startswith(f"elmo: {output} cannot be written: File too large; make room")
    assert not output.exists() and not output.with_name(name + ".new").exists()
    again = done(source, output, "--all")
    if room > 1:
        assert "400 of them by an earlier run" in again
    assert output.stat().st_size > part


def test_two_runs_do_not_write_one_file(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    with (tmp_path / "out.npz.part").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        assert "is being written by another process" in refused(text, output, "--top")


def left_behind(text: Path, output: Path) -> tuple[Path, Path]:
    """Leave a part and a journal, as a run does whose disk has no room for the output."""
    process = begin(text, output, "--top", preexec_fn=limited(15 * 32 * 4 + 100))
    process.communicate()
    assert process.returncode == 1
    part, journal = (output.with_name(f"{output.name}.{end}") for end in ("part", "journal"))
    assert part.stat().st_size == 15 * 32 * 4
    return part, journal


def test_the_part_of_another_run_is_refused_or_discarded(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    part, journal = left_behind(text, output)
    other = tmp_path / "other.txt"
    other.write_text("something else\n")

    assert "was begun with layers 'top', and this is 'all'" in refused(text, output, "--all")
    assert "was begun with text" in refused(other, output, "--top")
    assert "1 sentences, 2 tokens" in done(other, output, "--top", "--force")
    assert not part.exists() and not journal.exists()


def test_force_replaces_an_output_and_continues_the_run(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    left_behind(text, output)
    output.write_text("old")

    assert "5 sentences, 5 of them by an earlier run" in done(text, output, "--top", "--force")
    assert "5 sentences, 15 tokens" in done(text, output, "--top", "--force")


def test_a_part_that_was_changed_is_not_continued(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    part, journal = left_behind(text, output)
    data = bytearray(part.read_bytes())
    data[5] ^= 1
    part.write_bytes(data)

    assert "does not hold what out.npz.journal says" in refused(text, output, "--top")
    assert "5 sentences, 15 tokens" in done(text, output, "--top", "--force")
    assert not part.exists() and not journal.exists()


@pytest.mark.parametrize("name", ["out.npz.part", "out.npz.new", "out.npz.journal"])
@pytest.mark.parametrize("flags", [[], ["--force"]], ids=["", "force"])
def test_foreign_files_are_never_changed(
    text: Path, tmp_path: Path, name: str, flags: list[str]
) -> None:
    foreign = tmp_path / name
    foreign.write_text("precious")

    line = refused(text, tmp_path / "out.npz", "--top", *flags)

    assert line.startswith(f"elmo: {foreign} exists and ")
    assert foreign.read_text() == "precious"
    assert {path.name for path in tmp_path.iterdir()} == {"input.txt", name}


def test_an_empty_part_of_a_run_that_was_killed_at_once_is_no_obstacle(
    text: Path, tmp_path: Path
) -> None:
    (tmp_path / "out.npz.part").touch()

    assert "5 sentences" in done(text, tmp_path / "out.npz", "--top")


def test_ctrl_c_reports_how_many_sentences_are_kept(text: Path, tmp_path: Path) -> None:
    gate = threading.Event()
    with scripted_server() as scripted:
        scripted.script = [after(gate)] * 9
        process = begin(text, tmp_path / "out.npz", "--top", "--server", scripted.url)
        scripted.arrived.acquire()
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate()
        gate.set()

    assert process.returncode == 130
    assert complaint == (
        f"elmo: interrupted; {tmp_path}/out.npz.part keeps 0 of 5 sentences: the same command "
        "continues from there\n"
    )


ONES = """
import sys
from pathlib import Path
import numpy as np
from elmo_serve.files.outputs import OUTPUTS, allennlp
from elmo_serve.files.run import Job
from elmo_serve.files.selection import selection
from elmo_serve.files.sources.source import Stateless
from elmo_serve.files.text import Text
from elmo_serve.workers.messages import ModelInfo

source, output, form, width = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])

class Ones(Stateless):
    info = ModelInfo("ones", "1", "none", 3, width, 0, "float32")

    def groups(self, sentences, computed):
        for tokens in sentences:
            yield [np.ones((3, len(tokens), width), np.float32)]

form = {**OUTPUTS, "numbers alone": allennlp.NUMBERS_ALONE}[form]
Job(Text(source, "text"), form, Ones(), selection("all", 3)).to_file(output, {})
# ru_maxrss of a child is at least the memory of its parent when it was started.
(line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x)
print(line.split()[1])
"""


@pytest.mark.parametrize(
    ("form", "counts", "line", "width", "most"),
    [
        # 20,000 and 120,000 tokens of 3 KB; and so many sentences that what is kept of each shows.
        ("numbers alone", (1_000, 6_000), "word " * 20, 256, 30),
        ("npz", (5_000, 65_000), "a sentence of few words", 1, 60),
    ],
)
def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, form: str, counts: tuple[int, ...], line: str, width: int, most: int
) -> None:
    # From a source that costs nothing, so that the file can be large.
    peaks = []
    for count in counts:
        source, output = tmp_path / f"{count}.txt", tmp_path / f"{count}.out"
        source.write_text(f"{line}\n" * count)
        run = subprocess.run(
            [sys.executable, "-c", ONES, str(source), str(output), form, str(width)],
            capture_output=True,
            text=True,
            check=True,
        )
        peaks.append(int(run.stdout) / 1024)
        output.unlink()

    assert peaks[1] - peaks[0] < most, f"{peaks} MiB"
