"""A tiny model, and one thread of torch, so that tests do not compete for the cores."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.inference.encoder import Encoder
from elmo_model.tasks.features import FeaturesOf, encode_by, features_of
from tests.support.checkpoints import write_pair


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def computed(model: Path) -> FeaturesOf:
    return partial(features_of, encode_by(Encoder.of(load(model))))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_pair(tmp_path / "model", cell=16, projection=8)
