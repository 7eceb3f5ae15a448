"""A run that is stopped and continued has the losses and weights of an unbroken run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.errors import ElmoError
from elmo_model.training import snapshot, trainer
from elmo_model.training.command import train
from elmo_model.training.options import Options
from elmo_model.training.run_folder import Folder
from elmo_model.training.snapshot import Snapshot
from tests.support.training import (
    last_snapshot,
    lines,
    losses,
    options,
    weights,
)


@pytest.mark.parametrize("recipe", ["reference", "modern"])
def test_a_stopped_run_continues_with_the_same_numbers(
    tmp_path: Path, whole: Options, recipe: str
) -> None:
    if recipe == "reference":
        whole = options(tmp_path, "whole", recipe=recipe, heldout=None)
        train(whole)
    broken = options(tmp_path, "broken", recipe=recipe, heldout=None, minutes=0.0)
    for _ in range(3):  # each stops after one step
        train(broken)
    assert losses(broken.run)[-1][0] == 3
    train(replace(broken, minutes=None))

    assert losses(whole.run) == losses(broken.run)
    assert len(losses(whole.run)) == 12
    one, other = weights(whole.run), weights(broken.run)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_steps_after_the_last_snapshot_are_trained_again(whole: Options, copied: Options) -> None:
    (copied.run / "snapshots" / "000000012.pt").unlink()
    with (copied.run / "log.jsonl").open("a") as log:
        log.write('{"step": 13, "lo')  # half a line
    train(copied)
    assert losses(copied.run) == losses(whole.run)


@pytest.mark.parametrize(("recipe", "samples"), [("reference", 8), ("modern", 0)])
def test_both_recipes_learn(tmp_path: Path, recipe: str, samples: int) -> None:
    rare: dict[str, Any] = {"measure_every": 20, "save_every": 80, "log_every": 10, "steps": 80}
    # a run that starts from the unigram model has less to learn
    rare |= {"dropout": 0.0, "softmax_bias": "zero", "samples": samples}
    chosen = options(tmp_path, "run", recipe=recipe, **rare)
    train(chosen)
    first, *_, last = losses(chosen.run)
    assert sum(last[1:]) < sum(first[1:]) - 0.3
    # so do the weights that are exported, by which held-out text is measured
    key = "heldout_perplexity"
    measured = [line[key] for line in lines(chosen.run) if key in line]
    assert measured[-1] < measured[0]


def test_the_softmax_learns_before_the_network_it_was_given(tmp_path: Path, whole: Options) -> None:
    """Stopped after the steps of the softmax and continued, as an unbroken run."""
    weights_of = whole.run / "published"
    given = load(weights_of).state_dict()
    usual: dict[str, Any] = {"weights": str(weights_of), "shape": None, "seed": 2, "heldout": None}
    unbroken = options(tmp_path, "unbroken", **usual, softmax_steps=4)
    train(unbroken)
    broken = options(tmp_path, "broken", **usual, softmax_steps=4, steps=4)
    train(broken)
    before = weights(broken.run)
    assert before["softmax.weight"].any()  # which is zero at first
    for name, value in given.items():
        assert torch.equal(before[f"elmo.{name}"], value), name

    train(replace(broken, steps=12))
    after = weights(broken.run)
    assert losses(broken.run) == losses(unbroken.run)
    assert all(torch.equal(value, after[name]) for name, value in weights(unbroken.run).items())
    for name, value in given.items():
        assert not torch.equal(after[f"elmo.{name}"], value), name


def test_the_softmax_beside_the_given_weights_is_taken_over(tmp_path: Path, whole: Options) -> None:
    still = {"learning_rate": 1e-12, "matrix_rate": 1e-12, "steps": 1, "heldout": None}
    given = str(whole.run / "model.safetensors")
    chosen = options(tmp_path, "next", weights=given, shape=None, **still)
    train(chosen)

    known = Snapshot.read(last_snapshot(whole.run)).model
    for name in ("softmax.weight", "softmax.bias"):
        torch.testing.assert_close(weights(chosen.run)[name], known[name], rtol=0, atol=1e-6)


def test_the_trial_of_threads_changes_no_number(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    tried = options(tmp_path, "tried", heldout=None)
    train(tried)
    threads = Folder(tried.run).read().options.threads
    assert threads in (1, 2) and torch.get_num_threads() == 2
    named = options(tmp_path, "named", heldout=None, threads=threads)
    train(named)
    assert losses(tried.run) == losses(named.run)
    train(replace(tried, steps=13))
    assert Folder(tried.run).read().options.threads == threads


def test_an_infinite_loss_ends_the_run_without_a_snapshot(tmp_path: Path) -> None:
    chosen = options(tmp_path, "run", learning_rate=1e38, clip_norm=1e9, recipe="reference")
    with pytest.raises(ElmoError, match=r"loss or gradient is (nan|inf) at step"):
        train(chosen)
    assert snapshot.latest(chosen.run / "snapshots") is None


def test_a_device_without_memory_for_a_step_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*_: Any) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(trainer, "clip_grad_norm_", short)
    with pytest.raises(ElmoError, match="rows is 4"):
        train(options(tmp_path, "run", threads=1))
