"""Parameters and rates of the optimisers, the schedule, and the average of the weights."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim import Adagrad, AdamW

from elmo_model.checkpoints import load
from elmo_model.training import snapshot
from elmo_model.training.optimiser import Muon, WeightAverage, lr_factor, optimiser_for
from elmo_model.training.options import REFERENCE, Options
from elmo_model.training.snapshot import Snapshot
from tests.support import training as golden
from tests.support.checkpoints import write_pair
from tests.support.command_line import elmo

MODERN = Options(Path(), ())


def test_weight_decay_is_on_matrices_alone() -> None:
    options = replace(MODERN, weight_decay=0.5)
    (adamw,) = optimiser_for(nn.Conv1d(2, 2, 1), options).parts
    assert isinstance(adamw, AdamW)
    groups = [(g["weight_decay"], [p.dim() for p in g["params"]]) for g in adamw.param_groups]
    assert groups == [(0.5, [3]), (0.0, [1])]
    (reference,) = optimiser_for(nn.Linear(2, 2), replace(MODERN, **REFERENCE)).parts
    assert isinstance(reference, Adagrad)


def test_muon_trains_the_linear_maps_and_adamw_all_else(tmp_path: Path) -> None:
    model = golden.first_model(tmp_path)
    *muon, adamw = optimiser_for(model, MODERN).parts
    assert all(isinstance(part, Muon) for part in muon) and isinstance(adamw, AdamW)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    trained = [
        {names[id(p)] for part in parts for group in part.param_groups for p in group["params"]}
        for parts in (muon, [adamw])
    ]
    assert trained[0] | trained[1] == set(names.values())
    assert not trained[0] & trained[1]
    kinds = {name.split(".")[-2] for name in trained[0]}
    assert kinds == {"input", "recurrent", "projection", "carry", "transform"}
    assert {"softmax.weight", "softmax.bias"} < trained[1]


def test_a_step_of_muon_has_equal_singular_values_of_the_size_of_an_adamw_step() -> None:
    generator = torch.Generator().manual_seed(1)
    model = nn.Sequential(nn.Linear(32, 128, bias=False), nn.Embedding(2, 3))
    weight = next(model.parameters())
    before = weight.detach().clone()
    directions = torch.randn(128, 32, generator=generator) * torch.logspace(0, -2, 32)
    weight.grad = directions
    options = replace(MODERN, matrix_rate=0.01, weight_decay=0.0)
    optimiser = optimiser_for(model, options)
    optimiser.set_factor(0.5)
    optimiser.step()

    moved = before - weight.detach()
    values = torch.linalg.svdvals(moved)
    assert torch.linalg.cond(directions) > 50 and values.max() / values.min() < 3
    # AdamW moves every weight by about its rate; Liu et al. take a fifth of it
    assert moved.square().mean().sqrt().item() == pytest.approx(0.5 * 0.01 * 0.2, rel=0.3)


@pytest.mark.parametrize("shape", [(24, 8), (8, 24)])
def test_steps_of_muon_are_those_of_torch(shape: tuple[int, int]) -> None:
    """In bfloat16, as there, to its rounding (2^-8 of a step); in float32 near it."""
    generator = torch.Generator().manual_seed(2)
    start = torch.randn(shape, generator=generator)
    weights = [nn.Parameter(start.clone()) for _ in range(3)]
    theirs = torch.optim.Muon([weights[0]], 0.01, 0.1, adjust_lr_fn="match_rms_adamw")
    ours = [Muon([weights[1]], 0.01, 0.1, torch.bfloat16)]
    ours.append(Muon([weights[2]], 0.01, 0.1, torch.float32))
    for _ in range(3):
        gradient = torch.randn(shape, generator=generator)
        for weight in weights:
            weight.grad = gradient.clone()
        for each in (theirs, *ours):
            each.step()

    moved = (weights[0] - start).abs().max().item()
    for weight, share in zip(weights[1:], (2**-8, 0.05), strict=True):
        assert (weight - weights[0]).abs().max().item() <= share * moved


def test_the_rate_of_every_optimiser_follows_the_schedule_and_is_restored(tmp_path: Path) -> None:
    model = golden.first_model(tmp_path)
    options = replace(MODERN, learning_rate=0.5, matrix_rate=0.25)
    first = optimiser_for(model, options)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    first.set_factor(0.1)
    first.step()
    again = optimiser_for(model, options)
    again.load_state_dict(first.state_dict())
    for optimisers, share in ((first, 0.1), (again, 0.1)):
        rates = [{group["lr"] for group in part.param_groups} for part in optimisers.parts]
        assert rates == [{0.25 * share}, {0.25 * share}, {0.5 * share}]
    again.set_factor(1.0)
    assert [part.param_groups[0]["lr"] for part in again.parts] == [0.25, 0.25, 0.5]


def constant(value: float) -> nn.Linear:
    layer = nn.Linear(2, 1)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(value)
    return layer


def test_an_update_takes_the_share_that_the_decay_leaves() -> None:
    model = constant(0.0)
    average = WeightAverage(model, 0.5)
    with torch.no_grad():
        model.weight.fill_(1.0)
    for step in range(1001, 1017):  # two of these steps update
        average.update(step)
    expected = 1 - 0.5**16
    assert average.state_dict()["weight"].flatten().tolist() == pytest.approx([expected] * 2)


def test_the_last_step_of_a_run_is_in_the_average() -> None:
    model = constant(0.0)
    average = WeightAverage(model, 0.5)
    average.update(1008)
    with torch.no_grad():
        model.weight.fill_(1.0)
    average.update(1010)
    assert average.model.weight.tolist() == [[0.0, 0.0]]
    average.update(1010, last=True)  # two steps after the last update
    expected = 1 - 0.5**2
    assert average.model.weight.flatten().tolist() == pytest.approx([expected] * 2)


def test_the_first_weights_are_forgotten_early() -> None:
    model = constant(5.0)
    average = WeightAverage(model, 0.9999)
    with torch.no_grad():
        model.weight.fill_(1.0)
    average.update(8)
    assert average.state_dict()["weight"].flatten().tolist() == pytest.approx([1.0] * 2, abs=0.02)


def test_every_one_of_the_first_steps_updates() -> None:
    """Later ones do at intervals: a run that ends before the first interval has an average too."""
    model = constant(0.0)
    average = WeightAverage(model, 0.999)
    found = [0.0]
    for step in range(1, 8):
        with torch.no_grad():
            model.weight.fill_(step)
        average.update(step)
        found.append(average.model.weight[0, 0].item())
        assert found[-2] < found[-1] <= step


def test_weights_that_do_not_learn_keep_their_bits() -> None:
    average = WeightAverage(constant(-0.0), 0.998)
    average.update(1008)
    assert all(bool(value.signbit().all()) for value in average.state_dict().values())


def test_without_a_decay_the_model_is_the_trained_one() -> None:
    model = constant(1.0)
    average = WeightAverage(model, 0.0)
    average.update(8)
    assert average.model is model
    assert average.state_dict() == {}


def test_a_run_measures_and_exports_the_average_and_keeps_both(tmp_path: Path) -> None:
    run, shape = tmp_path / "run", write_pair(tmp_path / "shape")
    options = ["--text", golden.FOLDER / "train.txt", "--heldout", golden.FOLDER / "heldout.txt"]
    options += ["--shape", shape, "--rows", 4, "--samples", 8, "--device", "cpu"]
    options += ["--vocabulary-size", 30, "--steps", 16]
    for setting in ("unroll=5", "average=0.99", "learning_rate=0.1"):
        options += ["--set", setting]
    # stopped after step 1, continued to the end: the average is that of an unbroken run
    assert elmo("train", run, *options, "--minutes", 0).exit_code == 0
    assert elmo("train", run, *options).exit_code == 0
    whole = tmp_path / "whole"
    assert elmo("train", whole, *options).exit_code == 0

    kept, other = (Snapshot.read(path) for path in map(last, (run, whole)))
    assert kept.average.keys() == kept.weights.keys()
    assert all(value.equal(other.average[name]) for name, value in kept.average.items())
    assert not any(value.equal(kept.weights[name]) for name, value in kept.average.items())

    exported = load(run / "model.safetensors").state_dict()
    for name, value in exported.items():
        torch.testing.assert_close(value, kept.average[f"elmo.{name}"], rtol=0, atol=1e-6)
    measured = elmo("perplexity", run, golden.FOLDER / "heldout.txt", "--json")
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert json.loads(measured.stdout)["both"] == pytest.approx(log[-1]["heldout_perplexity"])


def last(run: Path) -> Path:
    path = snapshot.latest(run / "snapshots")
    assert path is not None
    return path


def test_a_rate_that_decays_at_the_end_is_independent_of_the_steps_before() -> None:
    options = replace(MODERN, schedule="constant-decay", floor=0.01)
    options = replace(options, warmup=0.5, warmup_steps=4, decay=0.2)
    short, long = ([lr_factor(options, step, n) for step in range(n)] for n in (50, 100))
    assert short[:4] == [0.25, 0.5, 0.75, 1.0]
    assert short[:40] == long[:40]
    assert set(short[4:41]) == set(long[4:81]) == {1.0}
    assert all(a > b for a, b in pairwise(short[40:]))
    assert all(a > b for a, b in pairwise(long[80:]))
    assert lr_factor(options, 50, 50) == pytest.approx(0.01)


def test_the_rate_of_the_softmax_alone_falls_and_the_warm_up_follows() -> None:
    options = replace(MODERN, warmup=0.5, warmup_steps=4, decay=0.2, floor=0.1)
    usual = [lr_factor(options, step, 50) for step in range(50)]
    options = replace(options, softmax_steps=10, weights="english")
    found = [lr_factor(options, step, 60) for step in range(60)]
    assert found[:9] == [1.0] * 9
    assert found[9] == pytest.approx(0.1 + 0.9 * (1 - 0.5**0.5))
    assert found[10:] == usual
    # a run of the softmax alone
    assert [lr_factor(options, step, 10) for step in range(10)] == found[:10]
