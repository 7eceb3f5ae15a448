"""The programs of benchmarks/ start, and measure something however little there is to measure."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.on_cuda import Limits, floor_seconds
from elmo_model.network.config import LSTMConfig
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
    assert [name for name in PROGRAMS if f"\n`{name}" not in readme] == []


@pytest.mark.long
def test_the_network_is_timed_and_compared(text: str) -> None:
    precisions = ("--precisions", "float32", "bfloat16")
    lines = run("network", text, *LEAST, "--rows", "1", "2", *precisions).splitlines()
    rates = [line for line in lines if line.startswith(("| 1 |", "| 2 |"))]
    assert len(rates) == 6
    cosines = next(line for line in lines if line.startswith("| bfloat16 |")).split("|")[2:5]
    assert all(0.99 < float(cosine) <= 1.000001 for cosine in cosines)


@pytest.mark.long
def test_the_network_takes_a_share_of_a_whole_file(text: str) -> None:
    arguments = ("--model", str(SMALL), "--tokens", "300")
    lines = run("whole_file", text, *arguments).splitlines()
    _, _, rates, _, _, parts = (line.split("|")[1:-1] for line in lines if line.startswith("|"))
    assert int(rates[0]) >= 300 and 0 < float(rates[4].strip().rstrip("%")) <= 100
    seconds = [float(part) for part in parts]
    assert sum(seconds[:-1]) == pytest.approx(seconds[-1], abs=0.05)  # two digits each


@pytest.mark.long
def test_small_requests_are_timed_beside_a_long_sentence(text: str) -> None:
    sizes = ("--checkpoint", str(SMALL), "--tokens", "300", "--seconds", "1")
    done = started("long_sentence", text, *sizes)
    rows = [line.split("|")[1:-1] for line in done.stdout.splitlines() if line.startswith("| ")]
    names = ["warm-up", "idle", "beside the long sentence"]
    assert [row[0].strip() for row in rows[1:]] == names, done.stderr
    assert "The sentence of 300 tokens took" in done.stdout


@pytest.mark.long
@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
def test_a_row_of_hardware_has_all_its_numbers(text: str) -> None:
    lines = run("hardware", text, "--seconds", "4", "--models", "english", "--precisions", "int8")
    cells = [cell.strip() for cell in lines.splitlines()[-1].split("|")[1:-1]]
    assert cells[:2] == ["`english`", "int8"] and len(cells) == 7
    assert all(float(cell.replace(",", "")) > 0 for cell in cells[2:5])


@pytest.mark.long
@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
def test_requests_are_counted_without_a_network() -> None:
    rows = [line.split("|")[1:-1] for line in run("over_http", "--echo").splitlines()[-4:]]
    assert [(int(row[1]), int(row[5])) for row in rows] == [(1, 0), (32, 0)] * 2


def test_the_floor_of_a_step_is_its_products_or_its_weights() -> None:
    original = LSTMConfig(2, 4096, 512, 3.0, 3.0, skip=True)
    weights = 4 * (4 * 4096 * 512 + 4096 * 512)  # of four layer-directions
    operations = 2 * (weights + 4 * 4 * 4096 * 512)  # the input product too
    limits = Limits(bandwidth=2e12, rate=4e14)

    reading = 2 * weights / 2e12  # 42 microseconds of 16 bits, longer than 134 rows compute

    assert floor_seconds(original, 2, [1, 1], limits) == pytest.approx(2 * reading)
    assert floor_seconds(original, 4, [1], limits) == pytest.approx(2 * reading)
    assert floor_seconds(original, 2, [500], limits) == pytest.approx(500 * operations / 4e14)
    bare = LSTMConfig(1, 8, 8, None, None, skip=False, projected=False)
    assert floor_seconds(bare, 4, [3], Limits(1.0, 1e9)) == 2 * 4 * 64 * 4


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
        timeout=120,
        check=False,
    )
