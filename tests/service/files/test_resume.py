"""A run that ended early continues: each format, a file and a folder, each kind of end."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from elmo_serve.files.folder import MANIFEST
from elmo_serve.files.inputs import FileError
from elmo_serve.files.options import EmbedOptions
from elmo_serve.files.outputs import OUTPUTS
from elmo_serve.files.run import EmbedRun
from tests.support.embedding_runs import begin
from tests.support.made_up_source import INFO, MadeUp
from tests.support.scripted_server import scripted_server
from tests.support.vectors import sentences_of

SENTENCES = [[*tokens, str(number)] for number, tokens in enumerate(sentences_of(10))]  # no twice


class EndError(Exception):
    """The end of a process, after which the disk holds what it had written."""


ENDS: dict[str, tuple[BaseException, type[BaseException]]] = {
    "killed": (EndError(), EndError),
    "Ctrl-C": (KeyboardInterrupt(), KeyboardInterrupt),
    "a full disk": (OSError(errno.ENOSPC, "No space left on device"), FileError),
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("".join(" ".join(tokens) + "\n" for tokens in SENTENCES), encoding="utf-8")
    return path


def run(
    options: EmbedOptions,
    before: Callable[[int], None] = lambda _: None,
    at_join: BaseException | None = None,
) -> EmbedRun:
    """Run with made-up vectors, two sentences a group."""

    def step(name: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        if at_join is not None and name == "Writing":
            raise at_join

    job = EmbedRun(options.form, MadeUp(options.selected(INFO), before), step)
    if options.to_folder:
        job.to_folder(options)
    else:
        text = options.corpus.text(Path(options.input).name)
        job.to_file(text, Path(options.output), options.identity(INFO))
    return job


def content(output: Path) -> dict[str, bytes]:
    """Return the bytes of a file, or of all files of a folder, by their paths."""
    files = [path for path in output.rglob("*") if path.is_file()] if output.is_dir() else [output]
    return {path.relative_to(output).as_posix(): path.read_bytes() for path in files}


def options_of(source: Path, form: str, name: str, *, is_folder: bool) -> EmbedOptions:
    output = source.parent / name
    options = EmbedOptions("top", form, input=str(source), output=str(output))
    return replace(options, part_sentences=3 if is_folder else None)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("is_folder", [False, True], ids=["file", "folder"])
@pytest.mark.parametrize("form", OUTPUTS)
def test_a_run_that_ended_early_continues_with_the_same_bytes(
    source: Path, form: str, is_folder: bool, end: str
) -> None:
    error, seen = ENDS[end]
    whole = options_of(source, form, "whole", is_folder=is_folder)
    again = options_of(source, form, "again", is_folder=is_folder)
    run(whole)

    def before(number: int) -> None:
        if number == 7:
            raise error

    with pytest.raises(seen):
        run(again, before)
    assert is_folder or not Path(again.output).exists()
    computed: list[int] = []
    resumed = run(again, computed.append)

    # In a folder a full disk ends its part alone: the fourth one is there already.
    kept = 7 if is_folder and end == "a full disk" else 6
    assert (resumed.resumed, resumed.sentences, len(computed)) == (kept, 10 - kept, 10 - kept)
    assert content(Path(again.output)) == content(Path(whole.output))
    assert not source.with_name("again.parts").exists()


@pytest.mark.parametrize("end", ENDS)
def test_a_file_that_is_not_joined_yet_is_joined_from_its_parts(source: Path, end: str) -> None:
    error, seen = ENDS[end]
    options = options_of(source, "npz", "out", is_folder=False)
    with pytest.raises(seen):
        run(options, at_join=error)
    assert sorted(path.name for path in source.parent.iterdir()) == ["in.txt", "out.parts"]

    assert run(options).sentences == 0
    assert sorted(path.name for path in source.parent.iterdir()) == ["in.txt", "out"]


@pytest.mark.parametrize("keep", [None, 0, 100, -1])
def test_a_part_that_is_lost_or_damaged_is_computed_again(source: Path, keep: int | None) -> None:
    """As after a power cut: a part is not waited for until it is on the disk."""
    options = options_of(source, "npz", "out", is_folder=False)
    run(whole := replace(options, output=str(source.with_name("whole"))))
    with pytest.raises(EndError):
        run(options, at_join=EndError())
    path = source.with_name("out.parts") / "000002.part"
    data = path.read_bytes()
    path.unlink()
    if keep is not None:
        path.write_bytes(data[:keep])

    assert run(options).sentences == 2
    assert content(Path(options.output)) == content(Path(whole.output))


def test_a_part_that_changes_while_it_is_read_is_noticed(source: Path) -> None:
    options = options_of(source, "npz", "out", is_folder=False)

    def spoil(number: int) -> None:
        if number == 9:
            path = source.with_name("out.parts") / "000000.part"
            data = bytearray(path.read_bytes())
            data[60] ^= 1
            path.write_bytes(data)

    with pytest.raises(FileError, match=r"000000\.part was changed"):
        run(options, spoil)


# Real processes

MADE_UP = """
import sys
from pathlib import Path
from elmo_serve.files.options import EmbedOptions
from elmo_serve.files.run import EmbedRun
from tests.support.made_up_source import INFO, MadeUp

source, output, size = sys.argv[1], sys.argv[2], int(sys.argv[3]) or None
options = EmbedOptions("all", "npz", input=source, output=output, part_sentences=size)

def before(number):
    if number == 7:
        print("held", flush=True)
        sys.stdin.read()

run = EmbedRun(options.form, MadeUp(options.selected(INFO), before))
if size:
    run.to_folder(options)
else:
    run.to_file(options.corpus.text("in.txt"), Path(output), options.identity(INFO))
"""


@pytest.mark.parametrize("is_folder", [False, True], ids=["file", "folder"])
def test_a_killed_process_is_continued(source: Path, is_folder: bool) -> None:
    options = options_of(source, "npz", "out", is_folder=is_folder)
    options = replace(options, layers="all")
    command = [sys.executable, "-c", MADE_UP, str(source), options.output, str(3 * is_folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    process.kill()
    process.communicate()

    assert run(options).resumed == 6
    run(whole := replace(options, output=str(source.with_name("whole"))))
    assert content(Path(options.output)) == content(Path(whole.output))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("flags", [(), ("--part-sentences", 3)], ids=["file", "folder"])
def test_an_interrupted_command_says_what_is_kept(
    source: Path, number: signal.Signals, flags: tuple[object, ...]
) -> None:
    """Also before the text is read: here the server is asked for its model."""
    output = source.with_name("out")
    folder = output if flags else source.with_name("out.parts")
    folder.mkdir()
    (folder / MANIFEST).touch()
    (folder / "000000.part").touch()
    arrived, gate = threading.Event(), threading.Event()
    with scripted_server() as scripted:

        def hold(handler: object, body: bytes) -> None:
            arrived.set()
            gate.wait()

        scripted.info = hold
        flags = ("--top", "--format", "npz", *flags, "--server", scripted.url)
        process = begin(source, output, *flags)
        arrived.wait()
        process.send_signal(number)
        _, complaint = process.communicate()
        gate.set()

    assert process.returncode == 128 + number
    assert complaint.startswith(f"elmo: interrupted; {folder} keeps 1 finished part")
    assert len(complaint.splitlines()) == 1
