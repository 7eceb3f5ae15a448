"""`elmo train`: how a run ends, continues and reports, with real processes and signals."""

import os
import pty
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

from elmo_model.files.locks import locked_file
from elmo_model.models.opening import open_model
from elmo_model.training.options import Options
from elmo_model.training.run_folder import Folder
from elmo_model.training.snapshot import Snapshot
from elmo_serve.commands.train import train
from tests.support import training as golden
from tests.support.checkpoints import write_pair
from tests.support.command_line import elmo
from tests.support.files import full_disk
from tests.support.fork_server import Forked, forked
from tests.support.training import last_snapshot

TEXT = golden.FOLDER / "train.txt"
ROOT = Path(__file__).parents[3]
_LONG = 300  # seconds after which a child is taken for hung, on any machine


@pytest.fixture
def small(tmp_path: Path) -> list[object]:
    """Return the options of a run whose step takes milliseconds."""
    shape = write_pair(tmp_path / "shape")
    options: list[object] = ["--text", TEXT, "--shape", shape, "--rows", 4, "--set", "unroll=5"]
    return [*options, "--samples", 8, "--device", "cpu"]


@contextmanager
def child(output: int, *arguments: object) -> Iterator[Forked]:
    """Start `elmo` with both output streams on the descriptor `output`; kill it at the end."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = forked(["elmo", *map(str, arguments)], environment, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def read_until(descriptor: int, text: bytes) -> None:
    """Read the output of a child until it holds `text`; fail where the child ends before."""
    found = b""
    while text not in found:
        try:
            block = os.read(descriptor, 1 << 16)
        except OSError:  # a terminal of which no process has the other end
            block = b""
        assert block, found.decode()
        found += block


def steps_of(run: Path) -> int:
    return int(last_snapshot(run).stem)


def test_ctrl_c_saves_when_the_reader_of_the_output_is_gone(
    tmp_path: Path, small: list[object]
) -> None:
    """Ctrl-C in `elmo train ... 2>&1 | tee log` kills `tee` first."""
    run = tmp_path / "run"
    reader, writer = os.pipe()
    with child(writer, "train", run, *small, "--steps", 1_000_000, "--log-every", 1) as process:
        os.close(writer)
        read_until(reader, b"3/1,000,000 ")
        os.close(reader)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=_LONG) == 130
    assert steps_of(run) >= 3
    assert (run / "model.safetensors").exists()


def test_a_terminal_that_is_gone_saves(tmp_path: Path, small: list[object]) -> None:
    """The progress bar has no terminal left to write to, as when an ssh connection drops."""
    run = tmp_path / "run"
    master, terminal = pty.openpty()
    with child(terminal, "train", run, *small, "--steps", 1_000_000, "--log-every", 1) as process:
        os.close(terminal)
        read_until(master, b"3/1,000,000 ")
        os.close(master)
        process.send_signal(signal.SIGHUP)
        assert process.wait(timeout=_LONG) == 129
    assert steps_of(run) >= 3
    assert (run / "model.safetensors").exists()


def test_snapshots_are_written_at_an_interval_in_minutes(
    tmp_path: Path, small: list[object]
) -> None:
    run = tmp_path / "run"
    result = elmo("train", run, *small, "--steps", 3, "--set", "save_minutes=0")
    assert result.exit_code == 0, result.output
    assert sorted(int(path.stem) for path in (run / "snapshots").iterdir()) == [2, 3]
    assert 0 < Options(run, ()).save_minutes <= 10


def test_minutes_count_this_sitting_only(tmp_path: Path, small: list[object]) -> None:
    """The same command continues a run, however long the sittings before took."""
    run = tmp_path / "run"
    arguments = ("train", run, *small, "--steps", 9)
    stopped = elmo(*arguments, "--minutes", 0)
    assert stopped.exit_code == 0 and "Stopped and saved after step 1 of 9" in stopped.stdout
    path = last_snapshot(run)
    replace(Snapshot.read(path), seconds=7200.0).write(path.parent)
    assert elmo(*arguments, "--minutes", 60).exit_code == 0
    assert steps_of(run) == 9


def test_a_heldout_text_without_a_word_begins_no_run(tmp_path: Path, small: list[object]) -> None:
    (tmp_path / "empty.txt").touch()

    refused = elmo("train", tmp_path / "run", *small, "--heldout", tmp_path / "empty.txt")

    assert refused.exit_code == 1 and "empty.txt" in refused.stderr, refused.output
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_refused(tmp_path: Path, small: list[object]) -> None:
    refused = elmo("train", tmp_path / "run", *small, "--device", "cuda")

    assert refused.exit_code == 2 and "cuda" in refused.stderr


def test_a_disk_that_is_full_at_a_snapshot_is_one_line(tmp_path: Path, small: list[object]) -> None:
    run = tmp_path / "run"
    assert elmo("train", run, *small, "--steps", 1).exit_code == 0
    size = max(path.stat().st_size for path in (run / "snapshots").iterdir())

    with full_disk(size // 2):
        refused = elmo("train", run, *small, "--steps", 2)

    assert refused.exit_code == 1 and "File too large" in refused.stderr, refused.output
    assert refused.stderr.count("\n") == 1


def test_a_run_that_another_command_trains_is_refused(tmp_path: Path, small: list[object]) -> None:
    run = tmp_path / "run"
    run.mkdir()
    with locked_file(run / ".lock"):
        refused = elmo("train", run, *small, "--steps", 1)

    assert refused.exit_code == 1 and [path.name for path in run.iterdir()] == [".lock"]
    assert refused.stderr.startswith(f"elmo: {run}: another elmo train writes this run")
    assert elmo("train", run, *small, "--steps", 1).exit_code == 0


def test_a_run_can_be_lengthened(tmp_path: Path, small: list[object]) -> None:
    run, whole = tmp_path / "run", tmp_path / "whole"
    options = [*small, "--set", "warmup_steps=2", "--set", "decay=0.25", "--threads", 1]
    assert elmo("train", run, *options, "--steps", 6, "--minutes", 0).exit_code == 0
    for each in (run, whole):
        result = elmo("train", each, *options, "--steps", 12)
        assert result.exit_code == 0, result.output
    one, other = (Snapshot.read(last_snapshot(each)).weights for each in (run, whole))
    assert all(one[name].equal(other[name]) for name in other)


def test_a_finished_run_can_be_lengthened_and_not_made_shorter(
    tmp_path: Path, small: list[object]
) -> None:
    run = tmp_path / "run"
    options = [*small, "--set", "schedule=constant-decay"]
    assert elmo("train", run, *options, "--set", "tokens=120").exit_code == 0
    assert steps_of(run) == 6
    longer = elmo("train", run, *options, "--set", "tokens=180")
    assert longer.exit_code == 0 and "done already" not in longer.stdout
    assert steps_of(run) == 9

    again = elmo("train", run, *options, "--set", "tokens=180")
    assert "All 9 steps were done already; nothing was trained\n" in again.stdout
    shorter = elmo("train", run, *options, "--set", "tokens=100")
    assert shorter.exit_code == 1
    assert "has done 9 steps" in shorter.stderr


def test_a_run_from_the_weights_of_a_model_by_name(tmp_path: Path) -> None:
    run = tmp_path / "run"
    text = ["--text", TEXT, "--rows", 1, "--samples", 8, "--vocabulary-size", 30]
    options = [*text, "--set", "unroll=2", "--device", "cpu", "--steps", 2, "--softmax-steps", 2]
    result = elmo("train", run, *options, "--weights", "English")
    assert result.exit_code == 0, result.output
    theirs, ours = open_model("english"), open_model(run / "model.safetensors")
    assert ours.origin.revision == theirs.origin.revision  # the softmax alone has learned
    assert ours.origin.name == "run"
    assert "softmax_steps is 2 and the run has 2 steps: they train the softmax" in result.stdout


def test_defaults_of_the_command_are_those_of_the_options() -> None:
    options = Options(Path(), ())
    parser = train.make_context("train", ["run", "--text", "text.txt"])
    own = {name: value for name, value in parser.params.items() if value is not None}
    for name in own.keys() - {"run", "text", "recipe", "settings"}:
        assert own[name] == getattr(options, name), name


def test_every_other_option_is_set_by_its_key_which_the_page_lists() -> None:
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    own = {each.name for each in train.params}
    assert listed == {field.name for field in fields(Options)} - own


def test_settings_reach_the_run(tmp_path: Path, small: list[object]) -> None:
    settings = ("dropout=0", "fresh=false", "warmup_steps=none", "schedule=constant")
    given = [each for setting in settings for each in ("--set", setting)]
    run = tmp_path / "run"

    assert elmo("train", run, *small, "--steps", 1, "--recipe", "reference", *given).exit_code == 0

    kept = Folder(run).read().options
    assert (kept.optimiser, kept.dropout, kept.fresh) == ("adagrad", 0.0, False)
    assert (kept.warmup_steps, kept.schedule, kept.unroll) == (None, "constant", 5)
