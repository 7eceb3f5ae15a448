"""A run may stop and go on: losses and weights are those of one that did not."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.training import snapshot
from elmo_model.training.command import CommandError, TrainOptions, perplexity, train
from elmo_model.training.run import Folder, trained_model
from elmo_model.training.snapshot import Snapshot, SnapshotError
from tests.support import reference
from tests.support import training_golden as golden
from tests.support.checkpoints import read_pair, write_pair

TEXT = str(golden.FOLDER / "train.txt")
HELDOUT = golden.FOLDER / "heldout.txt"
SENTENCES = [["of", "it", "東京"], [], ["unheard-of"]]


def options(tmp_path: Path, run: str, **changed: Any) -> TrainOptions:
    shape = tmp_path / "shape"
    if not shape.exists():
        write_pair(shape)
    usual = TrainOptions(
        tmp_path / run,
        (TEXT,),
        heldout=HELDOUT,
        shape=str(shape),
        steps=12,
        rows=4,
        unroll=5,
        vocabulary_size=30,
        samples=8,
        name="tested",
        device="cpu",
        log_every=1,
        measure_every=6,
        save_every=4,
    )
    return replace(usual, **changed)


def arguments(chosen: TrainOptions) -> list[str]:
    given = [str(chosen.run), "--text", TEXT]
    for key in ("shape", "steps", "rows", "unroll", "vocabulary_size", "samples", "name", "device"):
        given += ["--" + key.replace("_", "-"), str(getattr(chosen, key))]
    return given


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def losses(run: Path) -> list[tuple[int, float, float]]:
    training = [line for line in lines(run) if "loss" in line]
    return [(line["step"], line["loss_forward"], line["loss_backward"]) for line in training]


def weights(run: Path) -> dict[str, torch.Tensor]:
    path = snapshot.latest(run / "snapshots")
    assert path is not None
    return Snapshot.read(path).weights


@pytest.mark.parametrize("recipe", ["reference", "modern"])
def test_a_run_that_stopped_goes_on_to_the_same_numbers(tmp_path: Path, recipe: str) -> None:
    whole = options(tmp_path, "whole", recipe=recipe)
    assert train(whole) == 0
    broken = options(tmp_path, "broken", recipe=recipe, minutes=0.0)
    for _ in range(3):  # each ends after a step of its own
        assert train(broken) == 0
    assert losses(broken.run)[-1][0] == 3
    assert train(replace(broken, minutes=None)) == 0

    assert losses(whole.run) == losses(broken.run)
    assert len(losses(whole.run)) == 12
    one, other = weights(whole.run), weights(broken.run)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_what_a_crash_left_after_the_snapshot_is_trained_again(tmp_path: Path) -> None:
    whole, cut = options(tmp_path, "whole"), options(tmp_path, "cut")
    train(whole)
    train(cut)
    (cut.run / "snapshots" / "000000012.pt").unlink()
    with (cut.run / "log.jsonl").open("a") as log:
        log.write('{"step": 13, "lo')  # half a line
    train(cut)
    assert losses(cut.run) == losses(whole.run)


@pytest.mark.parametrize(("recipe", "softmax"), [("reference", "sampled"), ("modern", "full")])
def test_both_recipes_learn(tmp_path: Path, recipe: str, softmax: str) -> None:
    chosen = options(
        tmp_path, "run", recipe=recipe, softmax=softmax, steps=80, log_every=10, learning_rate=None
    )
    assert train(replace(chosen, dropout=0.0)) == 0
    first, *_, last = losses(chosen.run)
    assert sum(last[1:]) < sum(first[1:]) - 0.3


def test_the_seed_decides_the_run(tmp_path: Path) -> None:
    runs = [options(tmp_path, name, seed=seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    for chosen in runs:
        train(chosen)
    a, b, c = (losses(chosen.run) for chosen in runs)
    assert a == b != c


def test_what_is_exported_is_what_was_trained(tmp_path: Path) -> None:
    chosen = options(tmp_path, "run")
    train(chosen)
    model, vocabulary, _ = trained_model(Folder(chosen.run))
    native, published = load(chosen.run / "model.safetensors"), load(chosen.run / "published")
    assert native.origin.name == "tested" and len(vocabulary) == 30
    vectors = zip(*(elmo.embed(SENTENCES) for elmo in (model.elmo, native, published)), strict=True)
    said_by, datasets = read_pair(chosen.run / "published")
    for sentence, layers in zip(SENTENCES, published.embed(SENTENCES), strict=True):
        expected, _ = reference.representations(sentence, said_by, datasets)
        np.testing.assert_allclose(layers, expected[:, 1:-1], rtol=0, atol=1e-5)
    for trained, ours, theirs in vectors:
        torch.testing.assert_close(trained, ours, rtol=0, atol=1e-6)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_the_log_holds_figures_of_both_directions(tmp_path: Path) -> None:
    chosen = options(tmp_path, "run")
    train(chosen)
    line = lines(chosen.run)[0]
    assert line["perplexity_forward"] == pytest.approx(np.exp(line["loss_forward"]))
    assert line["tokens"] == 20 and line["tokens_per_second"] > 0
    measured = [line for line in lines(chosen.run) if "heldout_perplexity" in line]
    assert [line["step"] for line in measured] == [6, 12]


def test_perplexity_of_a_run_is_what_it_measured_itself(tmp_path: Path) -> None:
    chosen = options(tmp_path, "run")
    train(chosen)
    said = json.loads(perplexity(chosen.run, (str(HELDOUT),), 2, None, True))
    assert said["per_token"]["both"] == pytest.approx(lines(chosen.run)[-1]["heldout_perplexity"])
    assert said["per_token"]["predictions"] == 190 + 25
    assert said["bilm_tf"]["predictions"] == (190 + 25) // 2 * 2
    assert "bilm-tf, 2 rows" in perplexity(chosen.run, (str(HELDOUT),), 2, None, False)
    with pytest.raises(CommandError, match="fewer rows"):
        perplexity(chosen.run, (str(HELDOUT),), 500, None, False)


def test_another_plan_is_refused_in_a_folder_that_has_one(tmp_path: Path) -> None:
    chosen = options(tmp_path, "run", steps=2)
    train(chosen)
    with pytest.raises(CommandError, match=r"recipe\.dropout 0\.1, found 0\.2"):
        train(replace(chosen, dropout=0.2))
    with pytest.raises(CommandError, match="steps 2, found 3"):
        train(replace(chosen, steps=3))
    with pytest.raises(CommandError, match=r"has done 2 steps, found --steps 1"):
        train(replace(chosen, steps=1))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"recipe": "new"}, "--recipe is 'new', expected reference or modern"),
        ({"samples": 30}, "--samples is 30, expected fewer than the 30 words"),
        ({"shape": "huge"}, "--shape is 'huge', expected tiny"),
        ({"precision": "int4"}, "--precision is 'int4'"),
        ({"schedule": "linear"}, "--schedule is 'linear'"),
        ({"tokens": 40}, "--steps and --tokens"),
        ({"text": ("nowhere*.txt",)}, "nowhere.*: no such file"),
    ],
)
def test_what_cannot_be_is_named(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        train(options(tmp_path, "run", **changed))


def test_a_loss_that_is_no_number_ends_the_run_and_spares_the_snapshot(tmp_path: Path) -> None:
    chosen = options(tmp_path, "run", learning_rate=1e38, clip_norm=1e9, recipe="reference")
    with pytest.raises(CommandError, match=r"loss or gradient is (nan|inf) at step"):
        train(chosen)
    assert snapshot.latest(chosen.run / "snapshots") is None


def test_a_snapshot_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    chosen = options(tmp_path, "run")
    train(chosen)
    path = snapshot.latest(chosen.run / "snapshots")
    assert path is not None
    assert sorted(p.stem for p in path.parent.iterdir()) == ["000000008", "000000012"]
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(SnapshotError, match="damaged or no snapshot"):
        Snapshot.read(path)
    torch.save({"version": 0}, path)
    with pytest.raises(SnapshotError, match="version is 0, expected 1"):
        Snapshot.read(path)


def test_sigterm_saves_and_ends(tmp_path: Path) -> None:
    chosen = options(tmp_path, "run", steps=1_000_000)
    command = [str(Path(sys.executable).with_name("elmo")), "train", *arguments(chosen)]
    process = subprocess.Popen(
        [*command, "--log-every", "1"], stdout=subprocess.PIPE, text=True, env=environment()
    )
    log, deadline = chosen.run / "log.jsonl", time.monotonic() + 60
    while time.monotonic() < deadline and not (log.exists() and log.read_text().count("\n") > 3):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    text, _ = process.communicate(timeout=60)

    assert process.returncode == 143, text
    path = snapshot.latest(chosen.run / "snapshots")
    assert path is not None and int(path.stem) == lines(chosen.run)[-1]["step"] > 3
    assert "the same command continues" in text
    assert load(chosen.run / "model.safetensors").embed(SENTENCES)[0].shape == (3, 3, 8)


def test_two_processes_train_as_one_and_one_goes_on_for_two(tmp_path: Path) -> None:
    alone = options(tmp_path, "alone", steps=20, dropout=0.0)
    train(alone)
    both = options(tmp_path, "both", steps=20, dropout=0.0)
    torchrun = [str(Path(sys.executable).with_name("torchrun")), "--standalone"]
    command = [*torchrun, "--nproc-per-node=2", str(Path(sys.executable).with_name("elmo"))]
    # stops when the processes ask each other for the first time, at step 10
    extra = ["--dropout", "0", "--minutes", "0", "--log-every", "1"]
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


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}
