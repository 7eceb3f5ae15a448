"""Runs of `elmo train` that take milliseconds a step, and what their folders hold."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

from elmo_model.training import snapshot
from elmo_model.training.command import TrainOptions
from elmo_model.training.recipe import RECIPES, Recipe
from elmo_model.training.snapshot import Snapshot
from tests.support import training as golden
from tests.support.checkpoints import write_pair

TEXT = str(golden.FOLDER / "train.txt")
HELDOUT = golden.FOLDER / "heldout.txt"
SENTENCES = [["of", "it", "東京"], [], ["unheard-of"]]


def options(tmp_path: Path, run: str, **changed: Any) -> TrainOptions:
    """Return the options of a run of 12 steps with 20 tokens each.

    Fields of the recipe may be changed as well.
    """
    shape, recipe = tmp_path / "shape", RECIPES[changed.pop("recipe", "modern")]
    if not shape.exists():
        write_pair(shape)
    usual = TrainOptions(
        tmp_path / run,
        (TEXT,),
        heldout=HELDOUT,
        shape=str(shape),
        steps=12,
        recipe=replace(recipe, rows=4, unroll=5, samples=8),
        vocabulary_size=30,
        name="tested",
        device="cpu",
        log_every=1,
        measure_every=6,
        save_every=4,
    )
    return with_changes(usual, **changed)


def with_changes(chosen: TrainOptions, **changed: Any) -> TrainOptions:
    """Return options with others of their own or of their recipe."""
    names = {field.name for field in fields(Recipe)} & changed.keys()
    recipe = replace(chosen.recipe, **{name: changed.pop(name) for name in names})
    return replace(chosen, **changed, recipe=recipe)


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
