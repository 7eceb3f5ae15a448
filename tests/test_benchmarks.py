"""The programs of benchmarks/ start, and measure something however little there is to measure."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.support.cuda import DEVICE, NEEDS_DEVICE

ROOT = Path(__file__).parent.parent
SMALL = ROOT / "tests" / "golden" / "allennlp" / "small"
PROGRAMS = {
    path.parent.name if path.stem == "__main__" else path.stem: ".".join(
        path.relative_to(ROOT).with_suffix("").parts
    )
    for path in sorted((ROOT / "benchmarks").rglob("*.py"))
    if "def main(" in path.read_text(encoding="utf-8")
}
"""The module of each program."""
SMALL_RUNS = {
    "evaluation": ("{small} --stability --texts 1", "one word, repeated"),
    "fairness": ("--seconds 1 --rounds 1", "No answer was wrong."),
    "gpu": ("{text} {folder} --device cpu --quick", "| service | done |"),
    "hardware": ("{text} --seconds 4 --models english --precisions float32", "| `english` |"),
    "long_sentence": (
        "{text} --checkpoint {small} --tokens 300 --seconds 1",
        "The sentence of 300 tokens took",
    ),
    "network": (
        "{text} --checkpoint {small} --tokens 10 --rounds 1 --rows 1 --precisions float32 bfloat16",
        "| bfloat16 |",
    ),
    "over_http": ("{text} --checkpoint {small} --tokens 100 --clients 2", "| application/json |"),
    "proteins": ("--checkpoint {small} --count 3 --longest 0", "| "),
    "whole_file": ("{text} --model {small} --tokens 300", "%"),
}
"""The options of a small run of a program, and words that it prints after it measured. The exit
status may be 1, where a target is missed."""
NEED_WRK = {"hardware"}
RUN_ELSEWHERE = {
    "against_allennlp",
    "environment",
    "faults",
    "load",
    "on_cuda",
    "server",
    "service",
}
"""In tests of their own, as parts of `gpu` and of `faults`, or below, where there is a peer."""
LEAST = ["--checkpoint", str(SMALL), "--tokens", "10", "--rounds", "1"]
ALLENNLP, BILM_TF, BILM_TF_PYTHON = map(os.environ.get, ("ALLENNLP", "BILM_TF", "BILM_TF_PYTHON"))


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text"
    path.write_text("".join(f"{'word ' * length}.\n\n" for length in range(1, 17)))
    return str(path)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_says_what_it_measures(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # In this process: most of the time of short processes is the import of torch.
    main = importlib.import_module(PROGRAMS[program]).main
    monkeypatch.setattr(sys, "argv", [program, "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0 and capsys.readouterr().out.startswith("usage:")


def test_every_program_is_described() -> None:
    readme = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    modules = {
        name.removeprefix("benchmarks.").removesuffix(".__main__") for name in PROGRAMS.values()
    }
    assert {name for name in modules if f"\n| `{name}" not in readme} == set()


@pytest.mark.long
@pytest.mark.parametrize("program", SMALL_RUNS)
def test_a_program_measures_something_however_small(
    program: str, text: str, tmp_path: Path
) -> None:
    if program in NEED_WRK and shutil.which("wrk") is None:
        pytest.skip("wrk is not installed")
    arguments, words = SMALL_RUNS[program]
    places = {"text": text, "small": SMALL, "folder": tmp_path / "out"}
    done = started(program, *arguments.format(**places).split())
    assert words in done.stdout and "Traceback" not in done.stderr, done.stderr


@pytest.mark.long
@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
def test_requests_are_counted_without_a_network() -> None:
    rows = [line.split("|")[1:-1] for line in run("over_http", "--echo").splitlines()[-4:]]
    assert [(int(row[1]), int(row[5])) for row in rows] == [(1, 0), (32, 0)] * 2


def test_every_program_is_run_small_somewhere() -> None:
    assert {*SMALL_RUNS, *RUN_ELSEWHERE} == {*PROGRAMS}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_cuda_device_there_is_one_clear_line(text: str) -> None:
    done = started("on_cuda", text)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "there is no CUDA device here, or torch was built without CUDA\n"


@pytest.mark.cuda
@NEEDS_DEVICE
def test_the_network_is_timed_on_the_device(text: str) -> None:
    chosen = ("--rows", "1", "4", "--device", DEVICE, "--precisions", "float32", "bfloat16")
    lines = run("on_cuda", text, *LEAST, *chosen).splitlines()
    rows = [line for line in lines if line.startswith(("| float32 |", "| bfloat16 |"))]
    assert len(rows) == 4


@pytest.mark.skipif(not ALLENNLP, reason="ALLENNLP names no folder with AllenNLP 2.10.1")
def test_allennlp_gives_the_same_vectors(text: str) -> None:
    assert ALLENNLP
    compare(text, "--allennlp", ALLENNLP)


@pytest.mark.skipif(
    not (BILM_TF and BILM_TF_PYTHON),
    reason="BILM_TF and BILM_TF_PYTHON name no source of bilm-tf and no Python with TensorFlow",
)
def test_bilm_tf_gives_the_same_vectors(text: str) -> None:
    assert BILM_TF
    assert BILM_TF_PYTHON
    compare(text, "--bilm-tf", BILM_TF, "--bilm-tf-python", BILM_TF_PYTHON)


def compare(text: str, *peer: str) -> None:
    """Check the difference from a peer, and that each way to embed has its row."""
    sizes = ("--rows", "1", "--bulk", "2", "4", "--our-bulk", "4", "--precisions", "float32")
    lines = run("against_allennlp", text, *LEAST, *peer, *sizes).splitlines()
    assert float(lines[1].rpartition(" ")[2]) < 5e-5
    rows = [line for line in lines if "| float32 |" in line]
    assert len(rows) == 4 and all("%" in row for row in rows)


def run(program: str, *arguments: str) -> str:
    """Run a program of benchmarks/ and return what it printed."""
    done = started(program, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def started(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program of benchmarks/."""
    return subprocess.run(
        [sys.executable, "-m", f"benchmarks.{program}", *arguments],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
