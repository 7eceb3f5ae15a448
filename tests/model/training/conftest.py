"""A finished run that many tests read."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from elmo_model.training.command import TrainOptions, train
from tests.support.training_runs import options


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> TrainOptions:
    """The options of a finished run. Its folder is never changed."""
    chosen = options(tmp_path_factory.mktemp("whole"), "run")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert train(chosen) == 0
    finally:
        torch.set_num_threads(before)
    return chosen


@pytest.fixture
def copied(whole: TrainOptions, tmp_path: Path) -> TrainOptions:
    """The options of a copy of that run, whose folder a test may change."""
    return replace(whole, run=Path(shutil.copytree(whole.run, tmp_path / "copied")))
