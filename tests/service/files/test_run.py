"""A run of `elmo embed` is killed, interrupted, continued, or finds the disk full."""

from __future__ import annotations

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
import torch

from elmo_model.network.elmo import ElmoNetwork
from elmo_serve.files.options import EmbedOptions
from elmo_serve.files.outputs import OUTPUTS
from elmo_serve.files.run import EmbedRun
from elmo_serve.files.text import Text
from elmo_serve.files.vectors import LengthSorted, OnComputed, Source, Stateful, Tokens, Vectors
from elmo_serve.models.in_process import open_network
from elmo_serve.output import select
from tests.support.embedding_runs import begin, close, done, layers_of, refused, sentences_of
from tests.support.full_disk import full_disk
from tests.support.scripted_server import after, scripted_server
from tests.support.servers import SMALL


def kept(output: Path) -> int:
    """Return the sentences in the parts of OUTPUT."""
    paths = output.with_name(f"{output.name}.parts").glob("*.npz")
    return sum(len(np.load(path)["lengths"]) for path in paths)


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
    options = EmbedOptions("average", input=str(source), output=str(output))
    options = replace(options, carry_state=bool(flags), batch_size=7 if flags else None)
    job = EmbedRun(Text(source, "in"), OUTPUTS["npz"], Broken(inner), part_seconds=0)
    with pytest.raises(EndError):
        job.to_file(output, options.identity(inner.info))
    before = kept(output)
    assert 0 < before < count
    assert not output.exists()
    (tmp_path / "out.npz.parts" / ".elmo-part.tmp").write_bytes(b"half a vector")

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
job = EmbedRun(Text(source, "text"), form, made_up, part_seconds=5 * (held < 0))
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
    assert (kept(output), output.exists()) == (3, False)

    again = subprocess.run(made_up(source, output, "npz", 2, -1), capture_output=True, check=True)

    assert again.stdout.startswith(b"3 ")
    with np.load(output) as found:
        assert [found[name].shape for name in found.files] == [(3, n, 2) for n in (2, 1, 3, 1)]
        assert [found[name][0, 0, 0] for name in found.files] == [2, 1, 3, 1]


@pytest.mark.parametrize("name", ["out.hdf5", "out.npz", "out.parquet"])
def test_after_a_full_disk_the_same_command_continues(tmp_path: Path, name: str) -> None:
    sentences = sentences_of(100)
    source, output = tmp_path / "in.txt", tmp_path / name
    source.write_text("".join(" ".join(each) + "\n" for each in sentences), encoding="utf-8")
    part = sum(map(len, sentences)) * 3 * 32 * 4

    with full_disk(part // 2):
        line = refused(source, output, "--all")

    assert line.startswith(f"elmo: {output} cannot be written: File too large; make room")
    assert not output.exists()
    done(source, output, "--all")
    assert output.stat().st_size > part
    assert {path.name for path in tmp_path.iterdir()} == {"in.txt", name}


def left_behind(text: Path, output: Path) -> Path:
    """Leave the folder of parts of a run whose disk has no room for the output."""
    with full_disk(1000):
        refused(text, output, "--top")
    return output.with_name(f"{output.name}.parts")


def test_the_parts_of_another_run_are_refused_or_discarded(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    folder = left_behind(text, output)
    other = tmp_path / "other.txt"
    other.write_text("something else\n")

    assert "was begun with layers 'top', and this is 'all'" in refused(text, output, "--all")
    assert "was begun with another text; --force" in refused(other, output, "--top")
    assert "1 sentence, 2 tokens" in done(other, output, "--top", "--force")
    assert not folder.exists()
    assert "5 sentences, 15 tokens" in done(text, output, "--top", "--force")


@pytest.mark.parametrize("is_folder", [True, False])
@pytest.mark.parametrize("flags", [[], ["--force"]], ids=["", "force"])
def test_foreign_files_are_never_changed(
    text: Path, tmp_path: Path, is_folder: bool, flags: list[str]
) -> None:
    foreign = tmp_path / "out.npz.parts"
    if is_folder:
        foreign.mkdir()
        foreign /= "000000.npz"
    foreign.write_text("precious")

    line = refused(text, tmp_path / "out.npz", "--top", *flags)

    assert line.startswith(f"elmo: {tmp_path / 'out.npz.parts'} is ")
    assert foreign.read_text() == "precious"
    assert {path.name for path in tmp_path.iterdir()} == {"input.txt", "out.npz.parts"}


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
        f"elmo: interrupted; {tmp_path}/out.npz.parts keeps 0 of 5 sentences: the same command "
        "continues from there\n"
    )


@pytest.mark.parametrize(
    ("form", "counts", "line", "width", "most"),
    [
        # 92 and 184 MB, more than a part; and so many sentences that what is kept of each shows.
        ("numbers alone", (1_500, 3_000), "word " * 20, 256, 64),
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
