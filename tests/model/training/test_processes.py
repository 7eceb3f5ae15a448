"""Several processes share the rows of a run."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmo_model.training.command import train
from elmo_model.training.processes import Processes, process_group
from tests.support.training_runs import arguments, environment, losses, options, weights


@pytest.mark.parametrize("continues", [False, True], ids=["random weights", "trained weights"])
def test_two_processes_train_as_one_and_one_continues_their_run(
    tmp_path: Path, continues: bool
) -> None:
    # products in bfloat16, which Muon has, would make more of other roundings
    usual: dict[str, Any] = {"steps": 20, "dropout": 0.0, "optimiser": "adamw"}
    if continues:
        first = options(tmp_path, "first")
        train(first)
        given = {"weights": str(first.run / "model.safetensors"), "softmax_steps": 6}
        usual |= {**given, "shape": None}
    alone = options(tmp_path, "alone", **usual)
    train(alone)
    both = options(tmp_path, "both", **usual)
    torchrun = [str(Path(sys.executable).with_name("torchrun")), "--standalone"]
    command = [*torchrun, "--nproc-per-node=2", str(Path(sys.executable).with_name("elmo"))]
    # stops when the processes exchange their flags for the first time, at step 10
    extra = ["--dropout", "0", "--minutes", "0", "--log-every", "1", "--optimiser", "adamw"]
    if continues:
        extra += ["--weights", usual["weights"], "--softmax-steps", "6"]
    run = subprocess.run(
        [*command, "train", *arguments(both), *extra],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(),
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert losses(both.run)[-1][0] == 10
    train(both)

    found, expected = losses(both.run), losses(alone.run)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    ours, theirs = weights(both.run), weights(alone.run)
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=0, atol=1e-5)


def test_a_single_process_needs_no_group() -> None:
    with process_group("cpu") as alone:
        assert alone == Processes(0, 1, torch.device("cpu"))
        assert alone.first and alone.any(True) and not alone.any(False)
        assert [each.tolist() for each in alone.gather(torch.ones(2))] == [[1.0, 1.0]]
