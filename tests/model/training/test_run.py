"""A run: its plan, its folder and its export."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.errors import ElmoError
from elmo_model.training.command import TrainOptions, train
from elmo_model.training.run import Folder, Plan, RunError, trained_model
from tests.support import reference
from tests.support.checkpoints import read_pair, write_pair
from tests.support.training_runs import SENTENCES, options, with_changes


def test_another_plan_is_refused_in_a_folder_that_has_one(tmp_path: Path) -> None:
    chosen = options(tmp_path, "run", steps=2, schedule="cosine", heldout=None)
    train(chosen)
    with pytest.raises(ElmoError, match=r"recipe\.dropout 0\.1, found 0\.2"):
        train(with_changes(chosen, dropout=0.2))
    with pytest.raises(ElmoError, match="steps 2, found 3"):
        train(replace(chosen, steps=3))
    with pytest.raises(ElmoError, match=r"has done 2 steps, found --steps 1"):
        train(replace(chosen, steps=1))


def test_a_folder_that_was_renamed_is_continued(tmp_path: Path) -> None:
    """A name decides no number; without `--name` it is that of the folder."""
    chosen = options(tmp_path, "old", name=None, steps=1, heldout=None)
    train(chosen)
    moved = replace(chosen, run=chosen.run.rename(tmp_path / "new"))
    train(moved)
    assert Folder(moved.run).read_plan().name == "new"
    assert load(moved.run / "model.safetensors").origin.name == "new"


def test_other_weights_are_refused_in_a_folder_that_has_a_run(tmp_path: Path) -> None:
    one, two = (write_pair(tmp_path / str(seed), seed=seed) for seed in (1, 2))
    chosen = options(tmp_path, "run", weights=str(one), shape=None, steps=1, heldout=None)
    train(chosen)
    with pytest.raises(ElmoError, match=rf"has weights '{load(one).origin.revision}', found"):
        train(replace(chosen, weights=str(two)))


def test_the_export_holds_the_trained_network(whole: TrainOptions) -> None:
    model, vocabulary, _ = trained_model(Folder(whole.run))
    native, published = load(whole.run / "model.safetensors"), load(whole.run / "published")
    assert native.origin.name == "tested" and len(vocabulary) == 30
    vectors = zip(*(elmo.embed(SENTENCES) for elmo in (model.elmo, native, published)), strict=True)
    options_file, datasets = read_pair(whole.run / "published")
    for sentence, layers in zip(SENTENCES, published.embed(SENTENCES), strict=True):
        expected, _ = reference.representations(sentence, options_file, datasets)
        np.testing.assert_allclose(layers, expected[:, 1:-1], rtol=0, atol=1e-5)
    for trained, ours, theirs in vectors:
        torch.testing.assert_close(trained, ours, rtol=0, atol=1e-6)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_a_plan_survives_json(whole: TrainOptions) -> None:
    plan = Folder(whole.run).read_plan()
    assert plan.name == "tested" and plan.steps == 12 and plan.text[0][0] == "train.txt"
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_a_run_of_an_earlier_version_is_read(whole: TrainOptions, tmp_path: Path) -> None:
    """Its recipe lacks the options that came later."""
    stored = json.loads((whole.run / "run.json").read_text())
    del stored["weights"]
    for key in ("warmup_steps", "decay", "average", "softmax_steps"):
        del stored["recipe"][key]
    (tmp_path / "run.json").write_text(json.dumps(stored))
    assert Folder(tmp_path).read_plan().recipe.average == 0.0


def test_a_folder_without_a_run_or_a_snapshot_is_refused(
    whole: TrainOptions, tmp_path: Path
) -> None:
    for path in (tmp_path, tmp_path / "model.safetensors"):
        with pytest.raises(RunError, match="expected the folder of a run of elmo train"):
            Folder(path).read_plan()
    (tmp_path / "run.json").write_text('{"name": "run"}')
    with pytest.raises(RunError, match="holds no run that this version reads"):
        Folder(tmp_path).read_plan()
    shutil.copy(whole.run / "run.json", tmp_path)
    with pytest.raises(RunError, match="holds no snapshot yet"):
        trained_model(Folder(tmp_path))
