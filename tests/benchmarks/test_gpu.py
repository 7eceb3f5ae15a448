"""The first visit to a machine with a GPU, tried out on a CPU."""

import sys
from pathlib import Path

import pytest

from benchmarks.gpu.__main__ import Part, run
from tests.test_benchmarks import run as run_program


@pytest.mark.long
def test_a_trial_on_a_cpu_prints_a_table_and_how_each_part_ended(tmp_path: Path) -> None:
    (text := tmp_path / "text").write_text("a bank .\nby the river .\n")
    lines = run_program("gpu", str(text), str(tmp_path / "out"), "--device", "cpu", "--quick")
    for part in ("environment", "on_cuda", "service"):
        assert f"| {part} | done |" in lines
        assert (tmp_path / "out" / f"{part}.txt").read_text()
    assert "| float32 | 2 |" in lines and "| all layers | 16 | 64 |" in lines


@pytest.mark.parametrize(
    ("command", "end"),
    [("import time; time.sleep(600)", "not finished"), ("raise SystemExit(3)", "failed with 3")],
)
def test_a_part_that_fails_or_hangs_is_named(tmp_path: Path, command: str, end: str) -> None:
    part = Part("one", 1.0, (sys.executable, "-c", command))
    assert f"| one | {end} |" in run(part, tmp_path / "log", 1.0 if "time" in command else 60.0)
