"""Runs of `elmo train` that take milliseconds a step, and what their folders hold."""

import json
from pathlib import Path
from typing import Any

import torch

from elmo_model.training import snapshot
from elmo_model.training.options import REFERENCE, Options
from elmo_model.training.snapshot import Snapshot
from tests.support import training as golden
from tests.support.checkpoints import write_pair

TEXT = str(golden.FOLDER / "train.txt")
HELDOUT = golden.FOLDER / "heldout.txt"
SENTENCES = [["of", "it", "東京"], [], ["unheard-of"]]


def options(tmp_path: Path, run: str, **changed: Any) -> Options:
    """Return the options of a run of 12 steps with 20 tokens each."""
    shape = tmp_path / "shape"
    if not shape.exists():
        write_pair(shape)
    usual: dict[str, Any] = {
        **(REFERENCE if changed.pop("recipe", "modern") == "reference" else {}),
        "run": tmp_path / run,
        "text": (TEXT,),
        "heldout": HELDOUT,
        "shape": str(shape),
        "steps": 12,
        "rows": 4,
        "unroll": 5,
        "samples": 8,
        "vocabulary_size": 30,
        "name": "tested",
        "device": "cpu",
        "log_every": 1,
        "measure_every": 6,
        "save_every": 4,
    }
    return Options(**{**usual, **changed})


def lines(run: Path) -> list[dict[str, Any]]:
    """Return the lines of a run's log."""
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def losses(run: Path) -> list[tuple[int, float, float]]:
    """Return step, forward loss and backward loss of every line about training."""
    training = [line for line in lines(run) if "loss" in line]
    return [(line["step"], line["loss_forward"], line["loss_backward"]) for line in training]


def last_snapshot(run: Path) -> Path:
    """Return the last snapshot of a run."""
    path = snapshot.latest(run / "snapshots")
    assert path is not None
    return path


def weights(run: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a run's last snapshot."""
    return Snapshot.read(last_snapshot(run)).weights
