"""A finished run that many tests read."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from elmo_model.training.command import train
from elmo_model.training.options import Options
from tests.support.training import options


@pytest.fixture(scope="package")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Options:
    """The options of a finished run. Its folder is never changed."""
    chosen = options(tmp_path_factory.mktemp("whole"), "run")
    with _quick():
        train(chosen)
    return chosen


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    """Train as `whole` was: on more threads sums have another order and other digits."""
    with _quick():
        yield


@contextmanager
def _quick() -> Iterator[None]:
    """Train on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.fixture
def copied(whole: Options, tmp_path: Path) -> Options:
    """The options of a copy of that run, whose folder a test may change."""
    return replace(whole, run=Path(shutil.copytree(whole.run, tmp_path / "copied")))
