"""The programs of benchmarks/ start, and measure something however little there is to measure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SMALL = ROOT / "tests" / "golden" / "allennlp" / "small"
PROGRAMS = sorted(
    path.stem
    for path in (ROOT / "benchmarks").glob("*.py")
    if "def main(" in path.read_text(encoding="utf-8")
)
LEAST = ["--checkpoint", str(SMALL), "--tokens", "10", "--rounds", "1"]
ALLENNLP = os.environ.get("ALLENNLP")


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text"
    path.write_text("".join(f"{'word ' * length}.\n\n" for length in range(1, 17)))
    return str(path)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_says_what_it_measures(program: str) -> None:
    assert run(program, "--help").startswith("usage:")


def test_every_program_is_described() -> None:
    readme = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert [name for name in PROGRAMS if f"\n`{name}" not in readme] == []


def test_the_network_is_timed_and_compared(text: str) -> None:
    precisions = ("--precisions", "float32", "bfloat16")
    lines = run("network", text, *LEAST, "--rows", "1", "2", *precisions).splitlines()
    rates = [line for line in lines if line.startswith(("| 1 |", "| 2 |"))]
    assert len(rates) == 6
    cosines = next(line for line in lines if line.startswith("| bfloat16 |")).split("|")[2:5]
    assert all(0.99 < float(cosine) <= 1.000001 for cosine in cosines)


def test_products_take_a_share_of_the_time(text: str) -> None:
    row = run("roofline", text, *LEAST, "--rows", "2", "--precisions", "float32").splitlines()[-1]
    assert float(row.split("|")[-2].strip().rstrip("%")) > 0


def test_the_network_takes_a_share_of_a_whole_file(text: str) -> None:
    arguments = ("--model", str(SMALL), "--tokens", "300")
    cells = run("whole_file", text, *arguments).splitlines()[-1].split("|")
    assert int(cells[1]) >= 300 and 0 < float(cells[5].strip().rstrip("%")) <= 100


@pytest.mark.skipif(not ALLENNLP, reason="ALLENNLP names no folder with AllenNLP 2.10.1")
def test_allennlp_gives_the_same_vectors(text: str) -> None:
    assert ALLENNLP
    sizes = ("--rows", "1", "--bulk", "2", "4", "--our-bulk", "4", "--precisions", "float32")
    lines = run("against_allennlp", text, *LEAST, "--allennlp", ALLENNLP, *sizes).splitlines()
    assert float(lines[1].rpartition(" ")[2]) < 5e-5
    assert len([line for line in lines if "| float32 |" in line]) == 4


def run(program: str, *arguments: str) -> str:
    """Run a program of benchmarks/ and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{program}", *arguments],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
