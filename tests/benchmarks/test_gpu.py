"""The first visit to a machine with a GPU, tried out on a CPU."""

import sys
from pathlib import Path

import pytest
import torch

from benchmarks.gpu.__main__ import Part, run
from benchmarks.gpu.graphs import Direction, both, reset
from tests.test_benchmarks import run as run_program


def test_a_trial_on_a_cpu_prints_a_table_and_how_each_part_ended(tmp_path: Path) -> None:
    (text := tmp_path / "text").write_text("a bank .\nby the river .\n")
    lines = run_program("gpu", str(text), str(tmp_path / "out"), "--device", "cpu", "--quick")
    for part in ("environment", "graphs", "on_cuda"):
        assert f"| {part} | done |" in lines
        assert (tmp_path / "out" / f"{part}.txt").read_text()
    assert lines.count("| float32 | 2 |") == 2  # of the graphs and of the network


@pytest.mark.parametrize(
    ("command", "end"),
    [("import time; time.sleep(600)", "not finished"), ("raise SystemExit(3)", "failed with 3")],
)
def test_a_part_that_fails_or_hangs_is_named(tmp_path: Path, command: str, end: str) -> None:
    part = Part("one", 1.0, (sys.executable, "-c", command))
    assert f"| one | {end} |" in run(part, tmp_path / "log", 1.0 if "time" in command else 60.0)


def test_steps_are_the_same_in_both_runs() -> None:
    torch.manual_seed(1)
    size = (8, 4, 3, 5)
    directions = [Direction.random(*size, torch.float32, torch.device("cpu")) for _ in range(2)]
    found = []
    for _ in range(2):
        reset(directions)
        both(directions)
        found.append([each.out.clone() for each in directions])
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))
    assert all(each.abs().max() > 0 for each in found[0])
