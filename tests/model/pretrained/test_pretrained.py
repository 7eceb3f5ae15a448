"""Models by name."""

from pathlib import Path

import pytest
import torch

from elmo_model.checkpoints import CheckpointError
from elmo_model.pretrained import BUILT_IN, describe_model, load_built_in, open_model
from tests.support import golden


def test_random_small_is_the_published_small_shape_and_the_same_every_time() -> None:
    first, second = load_built_in("random-small"), open_model("random-small")
    assert first.parameter_count == 13_593_296
    assert (first.layers, first.dimension) == (3, 256)
    assert first.origin == second.origin
    assert (first.origin.name, first.origin.format) == ("random-small", "random")
    answer = first.embed([["the", "same"]])[0]
    assert torch.equal(answer, second.embed([["the", "same"]])[0])
    assert answer.isfinite().all() and (answer.std(dim=(1, 2)) > 0.01).all()


def test_a_path_is_opened_where_no_name_is_known() -> None:
    assert open_model(golden.SMALL).origin.format == "allennlp"
    assert open_model(str(golden.SMALL)).dimension == 32


def test_names_and_paths_are_described_as_they_load(tmp_path: Path) -> None:
    for name in (*BUILT_IN, str(golden.SMALL)):
        elmo = open_model(name)
        assert describe_model(name) == (elmo.config, elmo.origin, elmo.parameter_count)


def test_what_is_neither_name_nor_path_names_the_names(tmp_path: Path) -> None:
    wrong = str(tmp_path / "nothing")
    for opening in (open_model, describe_model):
        with pytest.raises(CheckpointError, match="does not exist, expected a path or one of"):
            opening(wrong)
    with pytest.raises(
        CheckpointError, match="model is 'huge', expected one of english, random-small"
    ):
        load_built_in("huge")
