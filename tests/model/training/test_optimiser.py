"""The optimisers of the recipes: which parameters each trains, and at which rate."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim import Adagrad, AdamW, Muon

from elmo_model.training.optimiser import optimiser_for
from elmo_model.training.recipe import RECIPES
from tests.support import training_golden as golden


def test_weight_decay_is_on_matrices_alone() -> None:
    recipe = replace(RECIPES["modern"], optimiser="adamw", weight_decay=0.5)
    (adamw,) = optimiser_for(nn.Linear(2, 2), recipe).parts
    assert isinstance(adamw, AdamW)
    groups = [(g["weight_decay"], [p.dim() for p in g["params"]]) for g in adamw.param_groups]
    assert groups == [(0.5, [2]), (0.0, [1])]
    (reference,) = optimiser_for(nn.Linear(2, 2), RECIPES["reference"]).parts
    assert isinstance(reference, Adagrad)


def test_muon_trains_the_linear_maps_and_adamw_all_else(tmp_path: Path) -> None:
    model = golden.first_model(tmp_path)
    *muon, adamw = optimiser_for(model, RECIPES["modern"]).parts
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
    recipe = replace(RECIPES["modern"], matrix_rate=0.01, weight_decay=0.0)
    optimiser_for(model, recipe).step(0.5)

    moved = before - weight.detach()
    values = torch.linalg.svdvals(moved)
    assert torch.linalg.cond(directions) > 50 and values.max() / values.min() < 3
    # AdamW moves every weight by about its rate; Liu et al. take a fifth of it
    assert moved.square().mean().sqrt().item() == pytest.approx(0.5 * 0.01 * 0.2, rel=0.3)


def test_the_rate_of_every_optimiser_follows_the_schedule_and_is_restored(tmp_path: Path) -> None:
    model = golden.first_model(tmp_path)
    recipe = replace(RECIPES["modern"], learning_rate=0.5, matrix_rate=0.25)
    first = optimiser_for(model, recipe)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    first.step(0.1)
    again = optimiser_for(model, recipe)
    again.load_state_dict(first.state_dict())
    for optimisers, share in ((first, 0.1), (again, 0.1)):
        rates = [{group["lr"] for group in part.param_groups} for part in optimisers.parts]
        assert rates == [{0.25 * share}, {0.25 * share}, {0.5 * share}]
    again.step(1.0)
    assert [part.param_groups[0]["lr"] for part in again.parts] == [0.25, 0.25, 0.5]
