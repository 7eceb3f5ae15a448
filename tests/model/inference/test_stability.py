"""Stability: the texts are made by a seed, and a network that amplifies rounding is found out."""

from itertools import islice
from pathlib import Path

import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.inference.stability import BAR, TOKENS, largest_change, sets, stability
from elmo_model.models.opening import open_model
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.tasks.evaluate import stability_table
from tests.support.checkpoints import write_pair


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_pair(tmp_path / "model", cell=16, projection=8)


def test_a_seed_makes_long_texts_of_every_kind() -> None:
    made = sets(3)
    assert made == sets(3)
    assert len(made) == 9
    for texts in made.values():
        assert [len(text) for text in texts] == [TOKENS] * 3
        assert len({tuple(text) for text in texts}) == 3
    assert all(word.isdigit() for word in made["numbers of one to four digits"][0])
    assert len(set(made["one word, repeated"][0])) == 1
    assert sorted(made["prose"][0]) != made["prose"][0]


def with_recurrence(elmo: ElmoNetwork, factor: float) -> None:
    """Multiply the recurrent matrices of a network."""
    with torch.no_grad():
        for name, value in elmo.named_parameters():
            if name.endswith("recurrent.weight"):
                value.mul_(factor)


def test_a_network_that_amplifies_is_told_from_a_calm_one(model: Path) -> None:
    elmo = load(model)
    with_recurrence(elmo, 0.1)
    (calm,) = islice(stability(elmo, 1), 1)
    assert max(calm.layers) < BAR and calm.bfloat16 > 0.99
    assert calm.over == 0 and calm.first is None
    assert largest_change(elmo) < BAR

    with_recurrence(elmo, 300)
    (chaotic,) = islice(stability(elmo, 1), 1)
    assert chaotic.layers[0] < BAR < max(chaotic.layers)
    assert chaotic.over == 1 and chaotic.first is not None and chaotic.first > 0
    assert "1 of 1" in stability_table([chaotic])
    assert largest_change(elmo) > BAR


def test_the_default_model_is_stable_on_numbers_and_on_a_repeated_word() -> None:
    """The two sets that the network of one release before amplified most."""
    for found in islice(stability(open_model("english"), 1), 2):
        assert max(found.layers) < BAR, found
        assert found.bfloat16 > 0.999, found


def test_it_is_measured_in_float32(model: Path) -> None:
    """In bfloat16 a change of the weights by `NOISE` would be rounded away."""
    elmo = load(model).bfloat16()

    found = largest_change(elmo)

    assert found == largest_change(elmo.float()) > 0
