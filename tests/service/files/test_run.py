"""A run of `elmo embed` is killed, interrupted, continued, or finds the disk full."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import safetensors
import torch

from elmo_model.network.elmo import ElmoNetwork
from elmo_serve.files.outputs import OUTPUTS
from elmo_serve.files.run import EmbedRun
from elmo_serve.files.text import Text
from elmo_serve.files.vectors import LengthSorted, OnComputed, Source, Stateful, Tokens, Vectors
from elmo_serve.models.opening import open_network
from elmo_serve.output import select
from tests.support.embedding_runs import begin, close, done, layers_of, refused, sentences_of
from tests.support.full_disk import full_disk
from tests.support.scripted_server import after, scripted_server
from tests.support.servers import SMALL


def kept(journal: Path) -> int:
    try:
        with safetensors.safe_open(journal, framework="numpy") as file:
            return int(json.loads(file.metadata()["journal"])["sentences"])
    except FileNotFoundError:
        return 0


def carried(elmo: ElmoNetwork, sentences: Sequence[Sequence[str]], size: int) -> list[np.ndarray]:
    state, found = None, []
    with torch.inference_mode():
        for start in range(0, len(sentences), size):
            representations, state = elmo(sentences[start : start + size], state)
            found += [layers[:, 1:-1].mean(0).numpy() for layers in representations.sentences()]
    return found


class EndError(Exception):
    """The end of a process, after which the disk holds what it had written."""


class Broken(Source):
    """A source that computes two groups of another one, and raises."""

    def __init__(self, inner: Source) -> None:
        super().__init__(inner.info, inner.output)
        self._inner = inner

    def state(self) -> Mapping[str, Vectors]:
        return self._inner.state()

    def groups(
        self, sentences: Iterable[Tokens], on_computed: OnComputed
    ) -> Iterator[list[Vectors]]:
        yield from islice(self._inner.groups(sentences, on_computed), 2)
        raise EndError


@pytest.mark.parametrize(
    "flags", [[], ["--carry-state", "--batch-size", "7"]], ids=["length sorted", "stateful"]
)
def test_a_run_that_ended_early_continues_where_it_was(
    tmp_path: Path, elmo: ElmoNetwork, flags: list[str]
) -> None:
    count = 40
    sentences = sentences_of(count)
    source, output = tmp_path / "in.txt", tmp_path / "out.npz"
    source.write_text("".join(" ".join(each) + "\n" for each in sentences), encoding="utf-8")
    network = replace(open_network(str(SMALL), device="cpu"), batch_tokens=4)  # small windows
    wanted = select("average", 3)
    inner = Stateful(network, wanted, 7) if flags else LengthSorted(network, wanted)
    identity = {"layers": "average", "input format": "plain", "blank lines": False}
    identity |= {"batch size": 7 if flags else None, "format": "npz"}
    job = EmbedRun(Text(source, "in"), OUTPUTS["npz"], Broken(inner), keep_seconds=0)
    with pytest.raises(EndError):
        job.to_file(output, identity)
    before = kept(tmp_path / "out.npz.journal")
    assert 0 < before < count
    assert not output.exists()
    with (tmp_path / "out.npz.part").open("ab") as file:
        file.write(b"half a vector")

    printed = done(source, output, "--average", *flags)

    assert f"{count:,} sentences, {before:,} of them by an earlier run" in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.npz"]
    alone = [layers.mean(0) for layers in layers_of(elmo, sentences)]
    expected = carried(elmo, sentences, 7) if flags else alone
    with np.load(output) as found:
        assert found.files == [str(number) for number in range(count)]
        for number in range(count):
            close(found[str(number)], expected[number])


MADE_UP = """
import sys
from pathlib import Path
import numpy as np
from elmo_serve.files.outputs import OUTPUTS, allennlp
from elmo_serve.files.run import EmbedRun
from elmo_serve.files.text import Text
from elmo_serve.files.vectors import Source
from elmo_serve.output import select
from elmo_serve.workers.messages import ModelInfo

source, output, form = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
width, held = int(sys.argv[4]), int(sys.argv[5])

class MadeUp(Source):
    def groups(self, sentences, computed):
        for number, tokens in enumerate(sentences):
            if number == held:
                print("held", flush=True)
                sys.stdin.read()
            yield [np.full((3, len(tokens), width), len(tokens), np.float32)]

form = {**OUTPUTS, "numbers alone": allennlp.NUMBERS_ALONE}[form]
info = ModelInfo("made up", "1", "none", 3, width, 0, "float32")
made_up = MadeUp(info, select("all", 3))
job = EmbedRun(Text(source, "text"), form, made_up, keep_seconds=held < 0)
report = job.to_file(output, {})
# ru_maxrss of a child is at least the memory of its parent when it was started.
(line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x)
print(report.resumed, line.split()[1])
"""


def made_up(source: Path, output: Path, form: str, width: int, held: int) -> list[str]:
    """Return the command of a run whose vectors cost nothing; it stops before sentence `held`."""
    return [sys.executable, "-c", MADE_UP, *map(str, (source, output, form, width, held))]


def test_a_killed_run_continues_where_it_was(tmp_path: Path) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.npz"
    source.write_text("a b\nc\nd e f\ng\n")
    process = subprocess.Popen(
        made_up(source, output, "npz", 2, 3), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    process.kill()
    process.communicate()
    assert (kept(tmp_path / "out.npz.journal"), output.exists()) == (3, False)

    again = subprocess.run(made_up(source, output, "npz", 2, -1), capture_output=True, check=True)

    assert again.stdout.startswith(b"3 ")
    with np.load(output) as found:
        assert [found[name].shape for name in found.files] == [(3, n, 2) for n in (2, 1, 3, 1)]
        assert [found[name][0, 0, 0] for name in found.files] == [2, 1, 3, 1]


@pytest.mark.parametrize("name", ["out.hdf5", "out.npz", "out.parquet"])
@pytest.mark.parametrize("room", [0.5, 1.01], ids=["for half", "for the part alone"])
def test_after_a_full_disk_the_same_command_continues(
    tmp_path: Path, name: str, room: float
) -> None:
    sentences = sentences_of(100)
    source, output = tmp_path / "in.txt", tmp_path / name
    source.write_text("".join(" ".join(each) + "\n" for each in sentences), encoding="utf-8")
    part = sum(map(len, sentences)) * 3 * 32 * 4

    with full_disk(int(part * room)):
        line = refused(source, output, "--all")

    assert line.startswith(f"elmo: {output} cannot be written: File too large; make room")
    assert not output.exists() and not output.with_name(name + ".new").exists()
    again = done(source, output, "--all")
    if room > 1:
        assert "100 of them by an earlier run" in again
    assert output.stat().st_size > part


def left_behind(text: Path, output: Path) -> tuple[Path, Path]:
    """Leave a part and a journal, as a run does whose disk has no room for the output."""
    with full_disk(15 * 32 * 4 + 100):
        refused(text, output, "--top")
    part, journal = (output.with_name(f"{output.name}.{end}") for end in ("part", "journal"))
    assert part.stat().st_size == 15 * 32 * 4
    return part, journal


def test_the_part_of_another_run_is_refused_or_discarded(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    part, journal = left_behind(text, output)
    other = tmp_path / "other.txt"
    other.write_text("something else\n")

    assert "was begun with layers 'top', and this is 'all'" in refused(text, output, "--all")
    assert "was begun with another text; --force" in refused(other, output, "--top")
    assert "1 sentence, 2 tokens" in done(other, output, "--top", "--force")
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


@pytest.mark.parametrize(
    ("form", "counts", "line", "width", "most"),
    [
        # 6,000 and 30,000 tokens of 3 KB; and so many sentences that what is kept of each shows.
        ("numbers alone", (300, 1_500), "word " * 20, 256, 30),
        ("npz", (2_000, 22_000), "a sentence of few words", 1, 20),
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
            made_up(source, output, form, width, -1), capture_output=True, text=True, check=True
        )
        peaks.append(int(run.stdout.split()[1]) / 1024)
        output.unlink()

    assert peaks[1] - peaks[0] < most, f"{peaks} MiB"
